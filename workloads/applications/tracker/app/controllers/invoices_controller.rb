# frozen_string_literal: true

class InvoicesController < ResourcesController
  self.model = Invoice
  self.columns = %i[customer number state issued_on due_on]
  self.fields = %i[customer_id number state issued_on due_on]
  self.searched = %i[number]
  self.preloaded = %i[customer]
end
