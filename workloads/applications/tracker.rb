# frozen_string_literal: true

# The Rails application, driven in process.
#   tracker.rb [ROUNDS] [REQUESTS]     measured rounds after one that warms up; requests in each
require_relative "requests"
require_relative "tracker_start"
require_relative "tracker_visitor"
require_relative "rack_session"

rounds = Integer(ARGV.fetch(0, "2"))
count = Integer(ARGV.fetch(1, "140"))
visitor = TrackerVisitor.new(RackSession.new(Rails.application), Random.new(7))
count.times { visitor.request }
requests = Requests.new
rounds.times { count.times { requests.measure { visitor.request } } }
puts visitor.answers
