# frozen_string_literal: true

class CustomValue < ApplicationRecord
  belongs_to :custom_field
  belongs_to :issue

  def name = value.to_s.truncate(80)
end
