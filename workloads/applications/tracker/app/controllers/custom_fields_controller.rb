# frozen_string_literal: true

class CustomFieldsController < ResourcesController
  self.model = CustomField
  self.columns = %i[name kind required]
  self.fields = %i[name kind required]
  self.searched = %i[name]
end
