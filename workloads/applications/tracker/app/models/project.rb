# frozen_string_literal: true

class Project < ApplicationRecord
  belongs_to :organization
  has_many :memberships, dependent: :destroy
  has_many :categories, dependent: :destroy
  has_many :components, dependent: :destroy
  has_many :milestones, dependent: :destroy
  has_many :sprints, dependent: :destroy
  has_many :releases, dependent: :destroy
  has_many :issues, dependent: :destroy
  has_many :labels, dependent: :destroy
  has_many :activities, dependent: :destroy
  has_many :changesets, dependent: :destroy
  has_many :wiki_pages, dependent: :destroy
  has_many :forums, dependent: :destroy
  has_many :news_items, dependent: :destroy
  has_many :documents, dependent: :destroy
  has_many :users, through: :memberships
  enum :state, %i[planned running paused finished], prefix: true

  validates :name, presence: true, length: { maximum: 120 }
  validates :budget, numericality: { greater_than_or_equal_to: 0 }, allow_nil: true

  scope :starts_on_between, ->(first, last) { where(starts_on: first..last) }

  # Issues by status, and the hours estimated, for the overview and the report.
  def load_by_status
    issues.joins(:status).group("statuses.name").order("statuses.position").pluck("statuses.name", Arel.sql("COUNT(*)"), Arel.sql("SUM(estimate)"))
  end
end
