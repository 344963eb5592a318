# frozen_string_literal: true

class Category < ApplicationRecord
  belongs_to :project
  has_many :documents, dependent: :destroy

  validates :name, presence: true, length: { maximum: 120 }
end
