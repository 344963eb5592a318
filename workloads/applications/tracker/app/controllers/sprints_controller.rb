# frozen_string_literal: true

class SprintsController < ResourcesController
  self.model = Sprint
  self.columns = %i[project name starts_on ends_on]
  self.fields = %i[project_id name goal starts_on ends_on]
  self.searched = %i[name goal]
  self.preloaded = %i[project]
end
