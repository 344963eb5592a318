# frozen_string_literal: true

class Membership < ApplicationRecord
  belongs_to :user
  belongs_to :project
  belongs_to :role

  scope :since_between, ->(first, last) { where(since: first..last) }

  def name = since.to_s.truncate(80)
end
