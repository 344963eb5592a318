# frozen_string_literal: true

class Invoice < ApplicationRecord
  belongs_to :customer
  has_many :invoice_lines, dependent: :destroy
  enum :state, %i[draft sent paid overdue], prefix: true

  validates :number, presence: true, length: { maximum: 120 }

  scope :issued_on_between, ->(first, last) { where(issued_on: first..last) }
  scope :due_on_between, ->(first, last) { where(due_on: first..last) }

  def name = number.to_s.truncate(80)
end
