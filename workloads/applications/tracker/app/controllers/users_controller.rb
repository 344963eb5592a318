# frozen_string_literal: true

class UsersController < ResourcesController
  self.model = User
  self.columns = %i[organization team role name email locale active]
  self.fields = %i[organization_id team_id role_id name email locale about active]
  self.searched = %i[name email locale about]
  self.preloaded = %i[organization team role]
end
