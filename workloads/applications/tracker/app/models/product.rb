# frozen_string_literal: true

class Product < ApplicationRecord
  has_many :invoice_lines, dependent: :destroy

  validates :name, presence: true, length: { maximum: 120 }
  validates :price, numericality: { greater_than_or_equal_to: 0 }, allow_nil: true
  validates :stock, numericality: { greater_than_or_equal_to: 0 }, allow_nil: true
end
