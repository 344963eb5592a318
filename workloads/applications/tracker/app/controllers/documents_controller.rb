# frozen_string_literal: true

class DocumentsController < ResourcesController
  self.model = Document
  self.columns = %i[project category title]
  self.fields = %i[project_id category_id title body]
  self.searched = %i[title body]
  self.preloaded = %i[project category]
end
