# frozen_string_literal: true

class TimeEntry < ApplicationRecord
  belongs_to :issue
  belongs_to :user

  validates :hours, numericality: { greater_than_or_equal_to: 0 }, allow_nil: true

  scope :spent_on_between, ->(first, last) { where(spent_on: first..last) }

  def name = note.to_s.truncate(80)
end
