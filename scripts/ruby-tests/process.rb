require "fileutils"
require "tmpdir"
require_relative "job"

# Runs one job in a process of its own and reads the result.
module TestProcess
  module_function

  # only: ids of the tests to run, where the harness can choose; log: file to write; slowdown: how
  # many times as long the time limits are.
  def run(job, collector, log, slowdown:, only: nil)
    Dir.mktmpdir("ashlar-test-") do |scratch|
      record = File.join(scratch, "record")
      began = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      ended, status = start_and_wait(job, collector, log, scratch, record, slowdown, only)
      outcomes, running, finished = job.harness.read(record, log)
      trouble = ended || (finished ? nil : "ended without finishing")
      trouble &&= "#{trouble}#{" during #{running}" if running}"
      # A file of tests that cannot be loaded ends like this.
      trouble ||= "ended with status #{status} without a failed test" if status != 0 && outcomes.values.none? { _1.status == "failed" }
      Result.new(job:, outcomes:, trouble:, log:, flaky: [],
                 seconds: (Process.clock_gettime(Process::CLOCK_MONOTONIC) - began).round(1))
    end
  end

  def start_and_wait(job, collector, log, scratch, record, slowdown, only)
    harness = job.harness
    environment = { "RUBY_GC_LIBRARY" => collector.library, "ASHLAR_TEST_RECORD" => record, "TMPDIR" => scratch,
                    "RUBYOPT" => nil, "RUBYLIB" => nil, "GEM_HOME" => nil, "GEM_PATH" => nil,
                    "RUBY_TEST_TIMEOUT_SCALE" => ENV["RUBY_TEST_TIMEOUT_SCALE"] || (2 * slowdown).to_s }
    environment.merge!(harness.environment) if harness.respond_to?(:environment)
    environment.merge!(collector.environment)
    pid = Process.spawn(environment, *harness.command(job, collector, only:),
                        chdir: harness.folder, in: File::NULL, out: log, err: [:child, :out], pgroup: true)
    wait(pid, harness.time_limit_seconds * slowdown)
  end

  # What ended the process, nil when it ended by itself; and its exit status then.
  def wait(pid, limit_seconds)
    waiter = Process.detach(pid)
    unless waiter.join(limit_seconds)
      end_group(pid, "TERM")
      waiter.join(5)
      return "stopped at its time limit of #{limit_seconds} s"
    end
    status = waiter.value
    [status.signaled? ? "killed by SIG#{Signal.signame(status.termsig)}" : nil, status.exitstatus]
  ensure
    end_group(pid, "KILL") # what a test left running, or the test when this run is interrupted
  end

  def end_group(pid, signal)
    Process.kill(signal, -pid)
  rescue Errno::ESRCH, Errno::EPERM
    nil
  end
end
