# frozen_string_literal: true

class Dependency < ApplicationRecord
  belongs_to :issue
  enum :kind, %i[blocks duplicates follows concerns], prefix: true

  def name = note.to_s.truncate(80)
end
