# frozen_string_literal: true

class Issue < ApplicationRecord
  belongs_to :project
  belongs_to :issue_type
  belongs_to :priority
  belongs_to :status
  belongs_to :milestone
  belongs_to :component
  belongs_to :user
  has_many :comments, dependent: :destroy
  has_many :labellings, dependent: :destroy
  has_many :watchers, dependent: :destroy
  has_many :dependencies, dependent: :destroy
  has_many :attachments, dependent: :destroy
  has_many :time_entries, dependent: :destroy
  has_many :checklists, dependent: :destroy
  has_many :custom_values, dependent: :destroy
  has_many :notifications, dependent: :destroy
  has_many :labels, through: :labellings
  has_many :watching_users, through: :watchers, source: :user

  validates :title, presence: true, length: { maximum: 120 }
  validates :estimate, numericality: { greater_than_or_equal_to: 0 }, allow_nil: true
  validates :position, numericality: { greater_than_or_equal_to: 0 }, allow_nil: true

  scope :due_on_between, ->(first, last) { where(due_on: first..last) }
  scope :in_order, -> { order(:position, :id) }
  scope :unfinished, -> { joins(:status).where(statuses: { closed: false }) }

  def name = title.to_s.truncate(80)

  # Hours left of the estimate, never below zero.
  def hours_left = [estimate.to_d - time_entries.sum(&:hours), 0].max

  def overdue?(today) = due_on.present? && due_on < today && !status.closed
end
