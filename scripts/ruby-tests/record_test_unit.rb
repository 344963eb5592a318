# Started in the tested Ruby in place of test/runner.rb: runs test files with Ruby's own
# test-unit and records each test as it begins and ends.
#   ruby record_test_unit.rb RUBY_SOURCE options files...
require_relative "record"

TEST_RECORD = Record.open
ruby_source = ARGV.shift
require "#{ruby_source}/tool/test/init"

module RecordTests
  def _start_method(instance)
    TEST_RECORD.write("start", "#{instance.class}##{instance.__name__}")
    super
  end

  def record(suite, method, assertions, time, error, *rest)
    event =
      case error
      when nil then "passed"
      when Test::Unit::PendedError then "skipped"
      else "failed"
      end
    TEST_RECORD.write(event, "#{suite}##{method}", error && "#{error.class}: #{error.message.b}\n#{error.backtrace&.first(12)&.join("\n")}")
    super
  end
end

module RecordExcludes
  def exclude_from(suite)
    names = suite.test_methods.map(&:to_sym)
    super
    (names - suite.test_methods.map(&:to_sym)).each do |name|
      reason = excludes.find { |pattern, _| pattern === name }&.last
      TEST_RECORD.write("excluded", "#{suite}##{name}", reason.to_s)
    end
  end
end

Test::Unit::Runner.prepend(RecordTests)
Test::Unit::ExcludesOption::ExcludedMethods.prepend(RecordExcludes)
at_exit { TEST_RECORD.write("end") if $!.nil? || $!.is_a?(SystemExit) }
exit Test::Unit::AutoRunner.run(true, "#{ruby_source}/test")
