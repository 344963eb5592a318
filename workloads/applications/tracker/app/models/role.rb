# frozen_string_literal: true

class Role < ApplicationRecord
  has_many :users, dependent: :destroy
  has_many :memberships, dependent: :destroy

  validates :name, presence: true, length: { maximum: 120 }
end
