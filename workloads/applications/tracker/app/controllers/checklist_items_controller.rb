# frozen_string_literal: true

class ChecklistItemsController < ResourcesController
  self.model = ChecklistItem
  self.columns = %i[checklist text done position]
  self.fields = %i[checklist_id text done position]
  self.searched = %i[text]
  self.preloaded = %i[checklist]
end
