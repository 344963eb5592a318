# frozen_string_literal: true

class ReactionsController < ResourcesController
  self.model = Reaction
  self.columns = %i[comment user kind]
  self.fields = %i[comment_id user_id kind]
  self.searched = %i[]
  self.preloaded = %i[comment user]
end
