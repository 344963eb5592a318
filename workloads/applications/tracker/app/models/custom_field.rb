# frozen_string_literal: true

class CustomField < ApplicationRecord
  has_many :custom_values, dependent: :destroy
  enum :kind, %i[text number date choice], prefix: true

  validates :name, presence: true, length: { maximum: 120 }

  scope :required, -> { where(required: true) }
end
