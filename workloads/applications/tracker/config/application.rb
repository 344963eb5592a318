# frozen_string_literal: true

require_relative "boot"
require "rails"
require "active_record/railtie"
require "active_job/railtie"
require "action_controller/railtie"
require "action_view/railtie"
require "action_mailer/railtie"
require "kramdown"
require "rouge"

# A project tracker: projects, issues, comments, time, code, wiki, forums, invoices.
module Tracker
  # The day it always is, so that every run answers the same.
  TODAY = Date.new(2026, 1, 15)

  class Application < Rails::Application
    config.root = File.expand_path("..", __dir__)
    config.load_defaults 7.2
    config.yjit = ENV["TRACKER_YJIT"] != "no"
    config.eager_load = true
    config.enable_reloading = false
    config.secret_key_base = "0123456789abcdef" * 8
    config.hosts.clear
    config.consider_all_requests_local = false
    config.action_dispatch.show_exceptions = ENV["TRACKER_RAISE"] ? :none : :all
    config.action_controller.perform_caching = true
    config.cache_store = :memory_store, { size: 64 << 20 }
    config.logger = ActiveSupport::TaggedLogging.new(ActiveSupport::Logger.new(File.open(File::NULL, "w")))
    config.log_level = :info
    config.active_job.queue_adapter = :inline
    config.action_mailer.delivery_method = :test
    config.active_record.maintain_test_schema = false
    config.active_record.migration_error = false
    # Browsers of the load generator name no version.
    config.middleware.delete ActionDispatch::HostAuthorization
  end
end
