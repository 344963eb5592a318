# frozen_string_literal: true

class Contact < ApplicationRecord
  belongs_to :customer

  validates :name, presence: true, length: { maximum: 120 }
  validates :email, format: { with: /\A[^@\s]+@[^@\s]+\z/ }
end
