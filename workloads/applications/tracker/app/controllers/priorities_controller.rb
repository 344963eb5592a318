# frozen_string_literal: true

class PrioritiesController < ResourcesController
  self.model = Priority
  self.columns = %i[name weight colour]
  self.fields = %i[name weight colour]
  self.searched = %i[name colour]
end
