# frozen_string_literal: true

class Changeset < ApplicationRecord
  belongs_to :project
  belongs_to :user
  has_many :file_changes, dependent: :destroy

  validates :revision, presence: true, length: { maximum: 120 }

  scope :committed_on_between, ->(first, last) { where(committed_on: first..last) }

  def name = revision.to_s.truncate(80)
end
