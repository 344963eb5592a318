# frozen_string_literal: true

class User < ApplicationRecord
  belongs_to :organization
  belongs_to :team
  belongs_to :role
  has_many :memberships, dependent: :destroy
  has_many :issues, dependent: :destroy
  has_many :comments, dependent: :destroy
  has_many :reactions, dependent: :destroy
  has_many :watchers, dependent: :destroy
  has_many :attachments, dependent: :destroy
  has_many :time_entries, dependent: :destroy
  has_many :activities, dependent: :destroy
  has_many :changesets, dependent: :destroy
  has_many :wiki_revisions, dependent: :destroy
  has_many :topics, dependent: :destroy
  has_many :messages, dependent: :destroy
  has_many :news_items, dependent: :destroy
  has_many :saved_queries, dependent: :destroy
  has_many :notifications, dependent: :destroy
  has_many :projects, through: :memberships

  validates :name, presence: true, length: { maximum: 120 }
  validates :email, format: { with: /\A[^@\s]+@[^@\s]+\z/ }

  scope :active, -> { where(active: true) }

  def initials = name.split.map(&:first).join
end
