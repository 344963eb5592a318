# frozen_string_literal: true

class MessagesController < ResourcesController
  self.model = Message
  self.columns = %i[topic user]
  self.fields = %i[topic_id user_id body]
  self.searched = %i[body]
  self.preloaded = %i[topic user]
end
