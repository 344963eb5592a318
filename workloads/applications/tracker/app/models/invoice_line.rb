# frozen_string_literal: true

class InvoiceLine < ApplicationRecord
  belongs_to :invoice
  belongs_to :product

  validates :quantity, numericality: { greater_than_or_equal_to: 0 }, allow_nil: true
  validates :price, numericality: { greater_than_or_equal_to: 0 }, allow_nil: true

  def name = text.to_s.truncate(80)
end
