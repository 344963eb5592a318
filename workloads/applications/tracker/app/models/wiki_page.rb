# frozen_string_literal: true

class WikiPage < ApplicationRecord
  belongs_to :project
  has_many :wiki_revisions, dependent: :destroy

  validates :title, presence: true, length: { maximum: 120 }
  validates :body, presence: true, length: { maximum: 20_000 }

  def name = title.to_s.truncate(80)
end
