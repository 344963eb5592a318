# frozen_string_literal: true

class Activity < ApplicationRecord
  belongs_to :project
  belongs_to :user
  enum :verb, %i[created changed closed commented], prefix: true

  validates :summary, presence: true, length: { maximum: 120 }

  scope :happened_on_between, ->(first, last) { where(happened_on: first..last) }

  def name = summary.to_s.truncate(80)
end
