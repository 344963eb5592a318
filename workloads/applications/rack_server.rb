# frozen_string_literal: true

# Any Rack application behind a threaded server on loopback: Puma where it is among the gems,
# else WEBrick. TERM ends it.
#   rack_server.rb CONFIG_RU PORT
require_relative "gc_in_requests"

ENV["RACK_ENV"] ||= "production"
ENV["RAILS_ENV"] ||= "production"
ENV["SECRET_KEY_BASE"] ||= "0" * 64
require "rackup"
require_relative "serve"

application, = Rack::Builder.parse_file(ARGV.fetch(0))
serve(application, Integer(ARGV.fetch(1)), %w[puma webrick])
