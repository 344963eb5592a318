# frozen_string_literal: true

class Watcher < ApplicationRecord
  belongs_to :issue
  belongs_to :user

  def name = "Watcher #{id}"
end
