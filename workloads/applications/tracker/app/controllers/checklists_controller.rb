# frozen_string_literal: true

class ChecklistsController < ResourcesController
  self.model = Checklist
  self.columns = %i[issue title]
  self.fields = %i[issue_id title]
  self.searched = %i[title]
  self.preloaded = %i[issue]
end
