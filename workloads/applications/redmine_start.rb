# frozen_string_literal: true

# Starts Redmine on a copy of its database, so that what a run writes is gone after it. It always is the day on which
# the last of its records was made.
require "fileutils"
require "tmpdir"

%w[REDMINE_FOLDER REDMINE_DATABASE].each do |name|
  ENV[name] or abort "#{name} is not set: start this through make bench-applications, or see scripts/bench/redmine.sh"
end
folder = Dir.mktmpdir("redmine")
process = Process.pid
at_exit { FileUtils.rm_rf(folder) if Process.pid == process }
FileUtils.cp(ENV["REDMINE_DATABASE"], File.join(folder, "redmine.sqlite3"))
ENV["REDMINE_DATABASE"] = File.join(folder, "redmine.sqlite3")
require_relative "redmine/fixed_clock"
require File.join(ENV["REDMINE_FOLDER"], "config/environment")
