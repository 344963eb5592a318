# frozen_string_literal: true

class ProjectsController < ResourcesController
  self.model = Project
  self.columns = %i[organization name key state budget starts_on]
  self.fields = %i[organization_id name key description state budget starts_on]
  self.searched = %i[name key description]
  self.preloaded = %i[organization]

  def show
    @load = record.load_by_status
    @recent = record.issues.includes(:status, :priority, :user).order(id: :desc).limit(25)
    super
  end

  # Hours by user and month, with totals.
  def report
    @project = record
    @hours = TimeEntry.joins(:issue).where(issues: { project_id: record.id }).includes(:user)
                      .group_by { |entry| [entry.user, entry.spent_on.beginning_of_month] }
  end
end
