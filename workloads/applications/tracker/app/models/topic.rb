# frozen_string_literal: true

class Topic < ApplicationRecord
  belongs_to :forum
  belongs_to :user
  has_many :messages, dependent: :destroy

  validates :title, presence: true, length: { maximum: 120 }

  scope :sticky, -> { where(sticky: true) }

  def name = title.to_s.truncate(80)
end
