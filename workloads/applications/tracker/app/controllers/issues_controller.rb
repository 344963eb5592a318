# frozen_string_literal: true

class IssuesController < ResourcesController
  self.model = Issue
  self.columns = %i[project issue_type priority status user title estimate due_on]
  self.fields = %i[project_id issue_type_id priority_id status_id milestone_id component_id user_id title description estimate due_on position]
  self.searched = %i[title description]
  self.preloaded = %i[project issue_type priority status milestone component user]

  def show
    @comments = record.comments.includes(:user, reactions: :user).order(:id)
    @history = record.project.activities.includes(:user).order(id: :desc).limit(20)
    super
  end

  # Issues of a project as cards, a column for each status.
  def board
    @project = Project.find(params[:project_id])
    @statuses = Status.in_order
    @cards = @project.issues.includes(:priority, :user, :labels, :issue_type).order(:position, :id).limit(150).group_by(&:status_id)
  end
end
