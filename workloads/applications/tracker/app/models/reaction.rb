# frozen_string_literal: true

class Reaction < ApplicationRecord
  belongs_to :comment
  belongs_to :user
  enum :kind, %i[agree disagree thanks question], prefix: true

  def name = kind.to_s.truncate(80)
end
