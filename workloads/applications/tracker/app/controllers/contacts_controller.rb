# frozen_string_literal: true

class ContactsController < ResourcesController
  self.model = Contact
  self.columns = %i[customer name email phone]
  self.fields = %i[customer_id name email phone]
  self.searched = %i[name email phone]
  self.preloaded = %i[customer]
end
