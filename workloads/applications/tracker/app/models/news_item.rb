# frozen_string_literal: true

class NewsItem < ApplicationRecord
  belongs_to :project
  belongs_to :user

  validates :title, presence: true, length: { maximum: 120 }
  validates :body, presence: true, length: { maximum: 20_000 }

  scope :published_on_between, ->(first, last) { where(published_on: first..last) }

  def name = title.to_s.truncate(80)
end
