# frozen_string_literal: true

class Notification < ApplicationRecord
  belongs_to :user
  belongs_to :issue

  scope :seen, -> { where(seen: true) }

  def name = text.to_s.truncate(80)
end
