# frozen_string_literal: true

class ForumsController < ResourcesController
  self.model = Forum
  self.columns = %i[project name]
  self.fields = %i[project_id name description]
  self.searched = %i[name description]
  self.preloaded = %i[project]
end
