# frozen_string_literal: true

# The Rails application behind a threaded server on loopback, as rackup starts it. TERM ends it.
#   tracker_server.rb PORT [puma|webrick]
require_relative "gc_in_requests"
require_relative "tracker_start"
require "rackup"
require_relative "serve"

serve(Rails.application, Integer(ARGV.fetch(0)), [ARGV.fetch(1, "webrick")])
