# frozen_string_literal: true

# Makes the tracker's database, all or nothing.
#   prepare.rb DATABASE
database = ARGV.fetch(0)
partial = "#{database}.partial.#{$$}"
ENV["TRACKER_DATABASE"] = partial
require_relative "config/environment"
ActiveRecord::Migration.verbose = false
ActiveRecord::Base.connection.execute("PRAGMA synchronous = OFF")
load File.join(__dir__, "db/schema.rb")
require_relative "db/seeds"
Seeds.run(progress: ->(name, done, all) { puts "#{name} #{done}/#{all}" })
# The file keeps its mode, WAL: of workers that asked for it at once, all but one would be told that it is locked.
ActiveRecord::Base.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
ActiveRecord::Base.connection_pool.disconnect!
File.rename(partial, database)
