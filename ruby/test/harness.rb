require "fileutils"
require "tmpdir"
require_relative "subject"

# What a program came to. `out` and `err` are what it wrote.
Finished = Struct.new(:out, :err, :status, :seconds, :timed_out) do
  def ok? = !timed_out && status.success?

  def describe
    ending =
      if timed_out then "was stopped at its time limit"
      elsif status.signaled? then "was killed by SIG#{Signal.signame(status.termsig)}"
      else "exited with #{status.exitstatus}"
      end
    "the program #{ending}\n--- out\n#{tail(out)}\n--- err\n#{tail(err)}"
  end

  private

  def tail(text) = text.lines.last(25).join
end

# A claim that does not hold.
class Untrue < StandardError; end

# The collection of claims, and the trying of them.
module Claims
  Claim = Struct.new(:file, :text, :only, :ruby, :needs, :block) do
    # Why it is not tried, nil when it is.
    def skipped_for
      return "about Ashlar only" if only && !Subject.is?(only)
      return "about Ruby #{ruby} only" if ruby && !Subject.version.start_with?("#{ruby}.")

      "for a Ruby that has #{needs}" if needs && !Subject.has?(needs)
    end
  end
  @all = []

  module_function

  def in_file(name)
    @file = name
    yield
  end

  def add(*rest) = @all << Claim.new(@file, *rest)

  # Only these are tried, each of them "file: text".
  def keep(names)
    by_name = @all.to_h { ["#{_1.file}: #{_1.text}", _1] }
    @all = names.map { by_name[_1] or abort "run.rb: there is no claim '#{_1}'" }
  end

  # True when none failed. Prints each failure and, alone on a line, the count.
  def none?(part) = with(part).empty?

  def with(part) = @all.select { part.nil? || _1.text.include?(part) }

  def try_all(part, workers)
    chosen = with(part)
    skipped, chosen = chosen.partition(&:skipped_for)
    waiting = Queue.new
    chosen.each { waiting << _1 }
    waiting.close
    failures = Queue.new
    done = Queue.new
    threads = Array.new(workers) { Thread.new { work(waiting, failures, done, chosen.size) } }
    threads.each(&:join)
    $stderr.print "\r\e[K" if $stderr.tty?
    report(failures, skipped)
    puts "#{chosen.size - failures.size} passed, #{failures.size} failed, #{skipped.size} skipped"
    failures.empty?
  end

  def work(waiting, failures, done, total)
    while (claim = waiting.pop)
      began = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      begin
        Dir.mktmpdir("ashlar-claim-") { |folder| Scene.new(folder).instance_eval(&claim.block) }
      rescue StandardError => error
        failures << [claim, error]
      end
      done << claim
      seconds = Process.clock_gettime(Process::CLOCK_MONOTONIC) - began
      progress(claim, done.size, total, failures.size, seconds)
    end
  end

  def progress(claim, done, total, failed, seconds)
    text = format("%3d/%d  %s: %s", done, total, claim.file.delete_suffix("_test.rb"), claim.text)
    text += "  (#{failed} failed)" if failed.positive?
    if $stderr.tty?
      $stderr.print "\r\e[K#{text[0, 110]}"
    else
      $stderr.puts format("%s  %.1f s", text, seconds)
    end
  end

  def report(failures, skipped)
    Array.new(failures.size) { failures.pop }.each do |claim, error|
      failures << [claim, error]
      puts "", "FAILED #{claim.file}: #{claim.text}", error.message.gsub(/^/, "    ")
      puts "    #{error.backtrace.grep(/_test\.rb/).first}" unless error.is_a?(Untrue) && error.backtrace.nil?
    end
    skipped.map(&:skipped_for).tally.each { |reason, count| puts "skipped, as they are #{reason}: #{count}" }
  end
end

# Begins a program that asks what a forked child copies: `private_kib` is the memory that a process shares with no other, and
# `in_a_child` says ok when its block, run in a child, has not aborted.
IN_A_CHILD = <<~'RUBY'
  def private_kib = File.read("/proc/self/smaps_rollup")[/^Private_Dirty:\s+(\d+)/, 1].to_i

  def in_a_child
    pid = fork do
      yield
      exit!(0)
    end
    Process.wait(pid)
    abort unless $?.success?
    puts "ok"
  end
RUBY

# claim "what is true" do ... end; `only: "ashlar"` for what no other collector does, and
# `only: "module"` for what is true of the library alone, `"inside"` and `"libruby"` of a Ruby
# with Ashlar inside, and of one with a libruby.so. `ruby: "3.4"` for what is true of that version
# alone; `needs: "fiddle"` for what takes a library that not every Ruby comes with: from 4.0 on many
# are bundled gems, which a checkout of Ruby's repository lacks.
def claim(text, only: nil, ruby: nil, needs: nil, &block) = Claims.add(text, only, ruby, needs, block)

# An environment with these stress switches, and those that the tests run under before them.
def stress(*switches) = { "ASHLAR_STRESS" => [*ENV["ASHLAR_STRESS"], *switches].join(",") }

# What a claim can do: start programs in a folder of its own and check what came of them.
class Scene
  attr_reader :folder

  def initialize(folder)
    @folder = folder
  end

  # What a Ractor's block came to is its `value` from Ruby 4.0 on. On one line with the program's
  # first, so that lines keep their numbers.
  RACTOR_VALUE = "class Ractor; alias value take; end unless Ractor.method_defined?(:value); "

  # Runs Ruby source on the collector under test. `limit` in seconds; `input` goes to its
  # standard input; `address_space` in bytes is what `ulimit -v` sets.
  def ruby(source, *options, limit: 60, input: nil, env: {}, address_space: nil)
    path = File.join(folder, "program-#{object_id}-#{@programs = @programs.to_i + 1}.rb")
    source = RACTOR_VALUE + source if source.include?("Ractor.new")
    File.write(path, source)
    ruby_command([*options, path], limit:, input:, env:, address_space:)
  end

  def ruby_command(arguments, limit: 60, input: nil, env: {}, address_space: nil, chdir: folder)
    Subject.start(arguments, folder:, limit:, input:, env:, address_space:, chdir:)
  end

  # Runs the source and checks that it succeeded and wrote exactly `expected`.
  def ruby_prints(expected, source, *options, **rest)
    finished = ruby(source, *options, **rest)
    check(finished.ok?) { finished.describe }
    check_equal(expected, finished.out) { finished.describe }
    finished
  end

  # Most programs check themselves and end with `puts "ok"`.
  def ruby_ok(source, *options, **rest) = ruby_prints("ok\n", source, *options, **rest)

  # Compiles a C program, or a shared library, in the folder of the claim; where it is.
  def compiled(name, source, *flags)
    File.write(File.join(folder, "#{name}.c"), source)
    done = Subject.command({}, [Subject.config["CC"].split.first, "-O1", "-o", name, "#{name}.c", *flags], folder:, limit: 60)
    check(done.ok?) { done.describe }
    File.join(folder, name)
  end

  def check(condition)
    raise Untrue, yield unless condition
  end

  def check_equal(expected, actual)
    return if expected == actual
    raise Untrue, "expected #{expected.inspect}\n     got #{actual.inspect}\n#{yield if block_given?}"
  end

  def check_match(pattern, text)
    raise Untrue, "#{text.inspect}\ndoes not match #{pattern.inspect}" unless pattern.match?(text)
  end
end
