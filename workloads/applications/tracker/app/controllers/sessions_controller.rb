# frozen_string_literal: true

class SessionsController < ApplicationController
  def new; end

  def create
    user = User.find_by(email: params[:email])
    return render(:new, status: :unprocessable_entity) unless user

    reset_session
    session[:user_id] = user.id
    redirect_to root_path, notice: "Welcome, #{user.name}."
  end

  def destroy
    reset_session
    redirect_to root_path
  end
end
