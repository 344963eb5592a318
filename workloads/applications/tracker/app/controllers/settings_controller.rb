# frozen_string_literal: true

class SettingsController < ResourcesController
  self.model = Setting
  self.columns = %i[name]
  self.fields = %i[name value]
  self.searched = %i[name value]
end
