# frozen_string_literal: true

class ProductsController < ResourcesController
  self.model = Product
  self.columns = %i[name sku price stock]
  self.fields = %i[name sku description price stock]
  self.searched = %i[name sku description]
end
