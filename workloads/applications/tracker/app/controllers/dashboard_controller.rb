# frozen_string_literal: true

class DashboardController < ApplicationController
  def show
    @mine = Issue.unfinished.where(user: current_user).includes(:project, :priority, :status).order(:due_on).limit(30)
    @projects = Project.state_running.includes(:organization).order(:name).limit(12)
    @news = NewsItem.includes(:project, :user).order(published_on: :desc, id: :desc).limit(5)
    @activities = Activity.includes(:user, :project).order(happened_on: :desc, id: :desc).limit(40)
    @hours = TimeEntry.where(user: current_user).group(:spent_on).order(:spent_on).sum(:hours)
    @unread = Notification.where(user: current_user, seen: false).includes(:issue).limit(15)
  end
end
