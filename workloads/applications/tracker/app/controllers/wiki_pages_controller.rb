# frozen_string_literal: true

class WikiPagesController < ResourcesController
  self.model = WikiPage
  self.columns = %i[project title]
  self.fields = %i[project_id title body]
  self.searched = %i[title body]
  self.preloaded = %i[project]

  def show
    @revisions = record.wiki_revisions.includes(:user).order(number: :desc)
    super
  end
end
