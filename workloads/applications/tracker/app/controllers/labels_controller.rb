# frozen_string_literal: true

class LabelsController < ResourcesController
  self.model = Label
  self.columns = %i[project name colour]
  self.fields = %i[project_id name colour]
  self.searched = %i[name colour]
  self.preloaded = %i[project]
end
