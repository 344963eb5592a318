# frozen_string_literal: true

# Makes Redmine's database, all or nothing, and the files that it makes at its first start. The environment is what
# scripts/bench/redmine.sh exports.
#   prepare.rb DATABASE
database = ARGV.fetch(0)
partial = "#{database}.partial.#{$$}"
ENV["REDMINE_DATABASE"] = partial
require_relative "fixed_clock"
require File.join(ENV.fetch("REDMINE_FOLDER"), "config/application")
# Classes that look at their tables when they are loaded wait for the migrations.
Rails.application.config.before_initialize { |application| application.config.eager_load = false }
Rails.application.initialize!
require_relative "seeds"
$stdout.sync = true
ActiveRecord::Base.connection.execute("PRAGMA synchronous = OFF")
ActiveRecord::MigrationContext.new(Rails.root.join("db/migrate").to_s).migrate
# Migrations have used classes while their tables were others.
ActiveRecord::Base.schema_cache.clear!
ActiveRecord::Base.descendants.each(&:reset_column_information)
Redmine::DefaultData::Loader.load("en")
Seeds.run(progress: ->(name, done, all) { puts "#{name} #{done}/#{all}" })
# The file keeps its mode, WAL: of workers that asked for it at once, all but one would be told that it is locked.
ActiveRecord::Base.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
ActiveRecord::Base.connection_pool.disconnect!
File.rename(partial, database)
