# frozen_string_literal: true

class CommentsController < ResourcesController
  self.model = Comment
  self.columns = %i[issue user internal]
  self.fields = %i[issue_id user_id body internal]
  self.searched = %i[body]
  self.preloaded = %i[issue user]
end
