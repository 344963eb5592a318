# frozen_string_literal: true

class NewsItemsController < ResourcesController
  self.model = NewsItem
  self.columns = %i[project user title published_on]
  self.fields = %i[project_id user_id title body published_on]
  self.searched = %i[title body]
  self.preloaded = %i[project user]
end
