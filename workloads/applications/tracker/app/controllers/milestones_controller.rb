# frozen_string_literal: true

class MilestonesController < ResourcesController
  self.model = Milestone
  self.columns = %i[project name due_on state]
  self.fields = %i[project_id name due_on state]
  self.searched = %i[name]
  self.preloaded = %i[project]
end
