# frozen_string_literal: true

class CustomersController < ResourcesController
  self.model = Customer
  self.columns = %i[organization name email city]
  self.fields = %i[organization_id name email city notes]
  self.searched = %i[name email city notes]
  self.preloaded = %i[organization]
end
