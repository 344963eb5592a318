# frozen_string_literal: true

# Starts the tracker on a copy of its database, so that what a run writes is gone after it.
require "fileutils"
require "tmpdir"

source = ENV.fetch("TRACKER_DATABASE") do
  abort "TRACKER_DATABASE is not set: start this through make bench-applications, or see scripts/bench/applications.sh"
end
folder = Dir.mktmpdir("tracker")
at_exit { FileUtils.rm_rf(folder) }
ENV["TRACKER_DATABASE"] = File.join(folder, "tracker.sqlite3")
FileUtils.cp(source, ENV["TRACKER_DATABASE"])
require_relative "tracker/config/environment"
ActiveRecord::Base.connection_pool.with_connection { |connection| connection.execute("PRAGMA synchronous = OFF") }
