# frozen_string_literal: true

class IssueTypesController < ResourcesController
  self.model = IssueType
  self.columns = %i[name icon position]
  self.fields = %i[name icon position]
  self.searched = %i[name icon]
end
