# frozen_string_literal: true

class CustomValuesController < ResourcesController
  self.model = CustomValue
  self.columns = %i[custom_field issue value]
  self.fields = %i[custom_field_id issue_id value]
  self.searched = %i[value]
  self.preloaded = %i[custom_field issue]
end
