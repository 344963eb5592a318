# frozen_string_literal: true

class Checklist < ApplicationRecord
  belongs_to :issue
  has_many :checklist_items, dependent: :destroy

  validates :title, presence: true, length: { maximum: 120 }

  def name = title.to_s.truncate(80)
end
