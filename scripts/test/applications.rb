# frozen_string_literal: true

# Tries the claims about the applications that are measured: applications_test.rb.
#   make test-applications
require "json"
require "socket"
require_relative "../../ruby/test/harness"

Encoding.default_external = Encoding::UTF_8
%w[RUBY RUBY_STOCK RUBY_SOURCE].each { |name| abort %(applications.rb: #{name} is not set; run: make test-applications) unless ENV[name] }
Subject.set("ashlar", [])
Claims.in_file("applications_test.rb") { load File.join(__dir__, "applications_test.rb") }
exit Claims.try_all(ARGV.first, 2) ? 0 : 1
