# frozen_string_literal: true

class StatusesController < ResourcesController
  self.model = Status
  self.columns = %i[name closed position colour]
  self.fields = %i[name closed position colour]
  self.searched = %i[name colour]
end
