# frozen_string_literal: true

class ApplicationController < ActionController::Base
  protect_from_forgery with: :exception
  helper_method :current_user
  around_action :in_locale
  rescue_from ActiveRecord::RecordNotFound, with: :missing

  private

  # A visitor who has not logged in reads as the first user and may not write.
  def current_user = @current_user ||= User.find(session[:user_id] || User.minimum(:id))

  def require_login
    redirect_to new_session_path, alert: "Log in first." unless session[:user_id]
  end

  def in_locale(&) = I18n.with_locale(:en, &)

  def missing
    respond_to do |format|
      format.html { render "application/missing", status: :not_found }
      format.any { head :not_found }
    end
  end
end
