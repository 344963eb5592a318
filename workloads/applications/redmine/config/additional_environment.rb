# frozen_string_literal: true

# Redmine evaluates this in its configuration.
config.secret_key_base = "0123456789abcdef" * 8
config.active_job.queue_adapter = :inline
config.logger = ActiveSupport::TaggedLogging.new(ActiveSupport::Logger.new(File::NULL))
