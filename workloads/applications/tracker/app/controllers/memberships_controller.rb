# frozen_string_literal: true

class MembershipsController < ResourcesController
  self.model = Membership
  self.columns = %i[user project role since]
  self.fields = %i[user_id project_id role_id since]
  self.searched = %i[]
  self.preloaded = %i[user project role]
end
