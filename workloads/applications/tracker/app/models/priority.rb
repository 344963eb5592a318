# frozen_string_literal: true

class Priority < ApplicationRecord
  has_many :issues, dependent: :destroy

  validates :name, presence: true, length: { maximum: 120 }
  validates :weight, numericality: { greater_than_or_equal_to: 0 }, allow_nil: true
end
