# frozen_string_literal: true

class ChecklistItem < ApplicationRecord
  belongs_to :checklist

  validates :position, numericality: { greater_than_or_equal_to: 0 }, allow_nil: true

  scope :done, -> { where(done: true) }
  scope :in_order, -> { order(:position, :id) }

  def name = text.to_s.truncate(80)
end
