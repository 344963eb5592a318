# frozen_string_literal: true

class ApplicationMailer < ActionMailer::Base
  default from: "tracker@example.org"
end
