# frozen_string_literal: true

class Milestone < ApplicationRecord
  belongs_to :project
  has_many :issues, dependent: :destroy
  enum :state, %i[open reached missed], prefix: true

  validates :name, presence: true, length: { maximum: 120 }

  scope :due_on_between, ->(first, last) { where(due_on: first..last) }
end
