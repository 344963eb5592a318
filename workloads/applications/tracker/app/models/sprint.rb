# frozen_string_literal: true

class Sprint < ApplicationRecord
  belongs_to :project

  validates :name, presence: true, length: { maximum: 120 }

  scope :starts_on_between, ->(first, last) { where(starts_on: first..last) }
  scope :ends_on_between, ->(first, last) { where(ends_on: first..last) }
end
