# frozen_string_literal: true

class Organization < ApplicationRecord
  has_many :teams, dependent: :destroy
  has_many :users, dependent: :destroy
  has_many :projects, dependent: :destroy
  has_many :customers, dependent: :destroy

  validates :name, presence: true, length: { maximum: 120 }
end
