# frozen_string_literal: true

# Drives any Rack application in process: one round of its paths warms up, then as many
# requests as asked for are measured.
#   rack_application.rb CONFIG_RU REQUESTS PATH...
require_relative "requests"
require_relative "rack_session"

ENV["RACK_ENV"] ||= "production"
ENV["RAILS_ENV"] ||= "production"
ENV["SECRET_KEY_BASE"] ||= "0" * 64
rackup, count, *paths = ARGV
begin
  require "rack"
rescue LoadError
  abort "rack is not among the gems of this Ruby: an application with config.ru needs its Gemfile's gems (APP_BUNDLE unset), or GEM_PATH set"
end
application, = Rack::Builder.parse_file(rackup)
session = RackSession.new(application)
paths.each { |path| session.get(path) }
requests = Requests.new
Integer(count).times { |number| requests.measure { session.get(paths[number % paths.size]) } }
failed = session.statuses.select { |status, _| status.to_i >= 500 }.values.sum
abort "#{failed} of #{session.statuses.values.sum} requests were answered with an error (500 or above)" if failed.positive?
puts session.statuses.sort_by(&:first).map { |status, times| "#{status}: #{times}" }.join(", ")
