# frozen_string_literal: true

class TopicsController < ResourcesController
  self.model = Topic
  self.columns = %i[forum user title sticky]
  self.fields = %i[forum_id user_id title sticky]
  self.searched = %i[title]
  self.preloaded = %i[forum user]
end
