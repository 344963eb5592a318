# frozen_string_literal: true

class Team < ApplicationRecord
  belongs_to :organization
  has_many :users, dependent: :destroy

  validates :name, presence: true, length: { maximum: 120 }
end
