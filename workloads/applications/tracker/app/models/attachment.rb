# frozen_string_literal: true

class Attachment < ApplicationRecord
  belongs_to :issue
  belongs_to :user

  validates :name, presence: true, length: { maximum: 120 }
  validates :bytes, numericality: { greater_than_or_equal_to: 0 }, allow_nil: true
end
