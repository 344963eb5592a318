# frozen_string_literal: true

class DependenciesController < ResourcesController
  self.model = Dependency
  self.columns = %i[issue kind note]
  self.fields = %i[issue_id kind note]
  self.searched = %i[note]
  self.preloaded = %i[issue]
end
