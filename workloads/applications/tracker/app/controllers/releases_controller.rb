# frozen_string_literal: true

class ReleasesController < ResourcesController
  self.model = Release
  self.columns = %i[project version released_on]
  self.fields = %i[project_id version notes released_on]
  self.searched = %i[version notes]
  self.preloaded = %i[project]
end
