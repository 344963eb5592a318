# frozen_string_literal: true

class WikiRevisionsController < ResourcesController
  self.model = WikiRevision
  self.columns = %i[wiki_page user number]
  self.fields = %i[wiki_page_id user_id number body]
  self.searched = %i[body]
  self.preloaded = %i[wiki_page user]
end
