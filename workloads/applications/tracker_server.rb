# frozen_string_literal: true

# The Rails application behind a threaded server on loopback: Puma where it is among the
# gems, else WEBrick, both as rackup starts them. TERM ends it.
#   tracker_server.rb PORT [puma|webrick]
require_relative "gc_in_requests"
require_relative "tracker_start"
require "rackup"
require "webrick"

port = Integer(ARGV.fetch(0))
server = ARGV.fetch(1, "webrick")
quiet = server == "webrick" ? { Logger: WEBrick::Log.new(File::NULL), AccessLog: [] } : { Silent: true, Threads: "8:8" }
trap("TERM") { exit }
Rackup::Handler.get(server).run(GcInRequests.new(Rails.application), Host: "127.0.0.1", Port: port, **quiet)
