# frozen_string_literal: true

class IssueType < ApplicationRecord
  has_many :issues, dependent: :destroy

  validates :name, presence: true, length: { maximum: 120 }
  validates :position, numericality: { greater_than_or_equal_to: 0 }, allow_nil: true

  scope :in_order, -> { order(:position, :id) }
end
