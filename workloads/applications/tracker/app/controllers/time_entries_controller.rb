# frozen_string_literal: true

class TimeEntriesController < ResourcesController
  self.model = TimeEntry
  self.columns = %i[issue user hours spent_on note]
  self.fields = %i[issue_id user_id hours spent_on note]
  self.searched = %i[note]
  self.preloaded = %i[issue user]
end
