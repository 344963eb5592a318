# frozen_string_literal: true

class WatchersController < ResourcesController
  self.model = Watcher
  self.columns = %i[issue user]
  self.fields = %i[issue_id user_id]
  self.searched = %i[]
  self.preloaded = %i[issue user]
end
