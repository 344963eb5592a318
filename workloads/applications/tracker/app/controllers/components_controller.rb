# frozen_string_literal: true

class ComponentsController < ResourcesController
  self.model = Component
  self.columns = %i[project name path]
  self.fields = %i[project_id name path description]
  self.searched = %i[name path description]
  self.preloaded = %i[project]
end
