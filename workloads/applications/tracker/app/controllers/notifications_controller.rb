# frozen_string_literal: true

class NotificationsController < ResourcesController
  self.model = Notification
  self.columns = %i[user issue text seen]
  self.fields = %i[user_id issue_id text seen]
  self.searched = %i[text]
  self.preloaded = %i[user issue]
end
