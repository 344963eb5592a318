# frozen_string_literal: true

class ActivitiesController < ResourcesController
  self.model = Activity
  self.columns = %i[project user verb summary happened_on]
  self.fields = %i[project_id user_id verb summary happened_on]
  self.searched = %i[summary]
  self.preloaded = %i[project user]
end
