# frozen_string_literal: true

class Document < ApplicationRecord
  belongs_to :project
  belongs_to :category

  validates :title, presence: true, length: { maximum: 120 }
  validates :body, presence: true, length: { maximum: 20_000 }

  def name = title.to_s.truncate(80)
end
