# frozen_string_literal: true

class SavedQuery < ApplicationRecord
  belongs_to :user

  validates :name, presence: true, length: { maximum: 120 }

  scope :shared, -> { where(shared: true) }
end
