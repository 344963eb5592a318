# frozen_string_literal: true

class OrganizationsController < ResourcesController
  self.model = Organization
  self.columns = %i[name slug plan city]
  self.fields = %i[name slug plan city]
  self.searched = %i[name slug plan city]
end
