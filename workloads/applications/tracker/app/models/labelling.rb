# frozen_string_literal: true

class Labelling < ApplicationRecord
  belongs_to :issue
  belongs_to :label

  def name = "Labelling #{id}"
end
