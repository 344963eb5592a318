# frozen_string_literal: true

class FileChangesController < ResourcesController
  self.model = FileChange
  self.columns = %i[changeset path additions deletions]
  self.fields = %i[changeset_id path additions deletions]
  self.searched = %i[path]
  self.preloaded = %i[changeset]
end
