# frozen_string_literal: true

class Customer < ApplicationRecord
  belongs_to :organization
  has_many :contacts, dependent: :destroy
  has_many :invoices, dependent: :destroy

  validates :name, presence: true, length: { maximum: 120 }
  validates :email, format: { with: /\A[^@\s]+@[^@\s]+\z/ }
end
