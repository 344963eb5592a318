# frozen_string_literal: true

# Ready to be measured: as in production, with the gems that scripts/bench/rails.sh found.
ENV["RAILS_ENV"] ||= "production"
require "bundler/setup" unless ENV["BUNDLE_GEMFILE"].to_s.empty?
