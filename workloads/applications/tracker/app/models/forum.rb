# frozen_string_literal: true

class Forum < ApplicationRecord
  belongs_to :project
  has_many :topics, dependent: :destroy

  validates :name, presence: true, length: { maximum: 120 }
end
