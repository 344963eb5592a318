# frozen_string_literal: true

class Comment < ApplicationRecord
  belongs_to :issue
  belongs_to :user
  has_many :reactions, dependent: :destroy

  validates :body, presence: true, length: { maximum: 20_000 }

  scope :internal, -> { where(internal: true) }

  def name = body.to_s.truncate(80)
end
