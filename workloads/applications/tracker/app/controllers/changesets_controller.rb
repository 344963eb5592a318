# frozen_string_literal: true

class ChangesetsController < ResourcesController
  self.model = Changeset
  self.columns = %i[project user revision committed_on]
  self.fields = %i[project_id user_id revision message committed_on]
  self.searched = %i[revision message]
  self.preloaded = %i[project user]
end
