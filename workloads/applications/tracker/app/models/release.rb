# frozen_string_literal: true

class Release < ApplicationRecord
  belongs_to :project

  validates :version, presence: true, length: { maximum: 120 }

  scope :released_on_between, ->(first, last) { where(released_on: first..last) }

  def name = version.to_s.truncate(80)
end
