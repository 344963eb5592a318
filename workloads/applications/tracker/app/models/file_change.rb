# frozen_string_literal: true

class FileChange < ApplicationRecord
  belongs_to :changeset

  validates :path, presence: true, length: { maximum: 120 }
  validates :additions, numericality: { greater_than_or_equal_to: 0 }, allow_nil: true
  validates :deletions, numericality: { greater_than_or_equal_to: 0 }, allow_nil: true

  def name = path.to_s.truncate(80)
end
