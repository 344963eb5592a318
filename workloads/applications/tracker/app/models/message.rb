# frozen_string_literal: true

class Message < ApplicationRecord
  belongs_to :topic
  belongs_to :user

  validates :body, presence: true, length: { maximum: 20_000 }

  def name = body.to_s.truncate(80)
end
