# frozen_string_literal: true

class TeamsController < ResourcesController
  self.model = Team
  self.columns = %i[organization name]
  self.fields = %i[organization_id name purpose]
  self.searched = %i[name purpose]
  self.preloaded = %i[organization]
end
