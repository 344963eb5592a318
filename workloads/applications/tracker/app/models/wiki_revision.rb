# frozen_string_literal: true

class WikiRevision < ApplicationRecord
  belongs_to :wiki_page
  belongs_to :user

  validates :number, numericality: { greater_than_or_equal_to: 0 }, allow_nil: true
  validates :body, presence: true, length: { maximum: 20_000 }

  def name = number.to_s.truncate(80)
end
