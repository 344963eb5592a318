# frozen_string_literal: true

class RolesController < ResourcesController
  self.model = Role
  self.columns = %i[name]
  self.fields = %i[name permissions]
  self.searched = %i[name permissions]
end
