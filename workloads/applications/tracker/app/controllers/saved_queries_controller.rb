# frozen_string_literal: true

class SavedQueriesController < ResourcesController
  self.model = SavedQuery
  self.columns = %i[user name filter shared]
  self.fields = %i[user_id name filter shared]
  self.searched = %i[name filter]
  self.preloaded = %i[user]
end
