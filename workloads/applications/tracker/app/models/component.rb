# frozen_string_literal: true

class Component < ApplicationRecord
  belongs_to :project
  has_many :issues, dependent: :destroy

  validates :name, presence: true, length: { maximum: 120 }
  validates :path, presence: true, length: { maximum: 120 }
end
