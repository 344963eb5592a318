# frozen_string_literal: true

class InvoiceLinesController < ResourcesController
  self.model = InvoiceLine
  self.columns = %i[invoice product text quantity price]
  self.fields = %i[invoice_id product_id text quantity price]
  self.searched = %i[text]
  self.preloaded = %i[invoice product]
end
