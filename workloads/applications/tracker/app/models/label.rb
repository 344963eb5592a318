# frozen_string_literal: true

class Label < ApplicationRecord
  belongs_to :project
  has_many :labellings, dependent: :destroy

  validates :name, presence: true, length: { maximum: 120 }
end
