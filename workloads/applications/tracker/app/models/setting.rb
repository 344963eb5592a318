# frozen_string_literal: true

class Setting < ApplicationRecord

  validates :name, presence: true, length: { maximum: 120 }
end
