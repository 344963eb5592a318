# frozen_string_literal: true

class LabellingsController < ResourcesController
  self.model = Labelling
  self.columns = %i[issue label]
  self.fields = %i[issue_id label_id]
  self.searched = %i[]
  self.preloaded = %i[issue label]
end
