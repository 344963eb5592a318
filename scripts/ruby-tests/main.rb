# Ruby's own tests on a chosen collector: select, run, compare with the baseline, print.
# The baseline is the same selection on a Ruby that differs in the collector alone.

require "optparse"
require_relative "selection"
require_relative "pool"
require_relative "baseline"
require_relative "comparison"
require_relative "summary"

Encoding.default_external = Encoding::UTF_8 # also where the locale says nothing

# What each kind of Ashlar is compared with: the default collector as a module, or compiled in.
BASELINES = { "ashlar" => "default", "inside" => "stock" }.freeze

Settings = Struct.new(:selection, :collector, :only, :workers, :fresh_baseline, :environment, :excludes, :slowdown)

def parse_settings(arguments)
  settings = Settings.new("quick", "ashlar", [], 2, false, {}, [], 1)
  parser = OptionParser.new do |options|
    options.banner = "usage: run.sh quick|core|full [options]"
    options.on("--collector NAME", BASELINES.to_a.flatten, "ashlar (the default here), inside, or one without Ashlar: default or stock") { settings.collector = _1 }
    options.on("--only PATTERN", "jobs whose name contains PATTERN; may be repeated") { settings.only << _1 }
    options.on("--workers N", Integer, "test files that run at once (2)") do |workers|
      raise OptionParser::InvalidArgument, "#{workers}: at least 1" if workers < 1
      settings.workers = workers
    end
    options.on("--environment NAME=VALUE", "set for every test process; may be repeated") do |pair|
      name, value = pair.split("=", 2)
      settings.environment[name] = value
    end
    options.on("--excludes FOLDER", "leaves out what it lists, beside ruby/excludes; may be repeated") do |folder|
      raise OptionParser::InvalidArgument, "#{folder}: there is no such folder" unless File.directory?(folder)
      settings.excludes << File.expand_path(folder)
    end
    options.on("--slowdown N", Integer, "time limits are N times as long, for an emulated machine (1)") { settings.slowdown = _1 }
    options.on("--fresh-baseline", "run the default collector again, also where it has run before") { settings.fresh_baseline = true }
    options.separator <<~TEXT

      Rules: a test that fails is run twice more, alone. Failing every time, it failed;
      passing once, it is listed as flaky and does not fail the run. A file that crashes or
      runs into its time limit has failed and is not run again, but on the default
      collector, where it is run once more, alone. What fails on the default collector too
      is listed and not counted. Logs are in build/ruby-tests.
    TEXT
  end
  rest = parser.parse(arguments)
  settings.selection = rest.shift || "quick"
  raise OptionParser::NeedlessArgument, rest.first unless rest.empty?
  settings
rescue OptionParser::ParseError => error
  warn "ruby-tests: #{error.message}; see --help"
  exit 2
end

# The same tests without Ashlar: run once per machine and Ruby build, and remembered. A file that was killed or stopped
# beside others is run again alone: a busy machine is enough for that.
def baseline_results(settings, collector)
  toolchain = Toolchain.of(collector)
  jobs = Selection.jobs(settings.selection, toolchain, settings.only)
  baseline = Baseline.new(toolchain)
  missing = settings.fresh_baseline ? jobs : jobs.reject { baseline.include?(_1) }
  [settings.workers, 1].each do |workers|
    break if missing.empty?
    Pool.new(toolchain, Collector.of(collector), workers, settings.slowdown).run(missing) { baseline.record(_1) }
    missing = missing.reject { baseline.include?(_1) }
  end
  baseline.results(jobs)
end

def ashlar_results(settings, baseline)
  toolchain = Toolchain.of(settings.collector)
  collector = Collector.of(settings.collector)
  collector.excludes.concat(settings.excludes)
  collector.environment.update(settings.environment)
  # Long jobs first, so that no worker is left with one at the end.
  seconds = baseline.to_h { [_1.job.name, _1.seconds] }
  jobs = Selection.jobs(settings.selection, toolchain, settings.only).sort_by { -seconds.fetch(_1.name) }
  Pool.new(toolchain, collector, settings.workers, settings.slowdown).run(jobs)
end

def main
  settings = parse_settings(ARGV)
  baseline = baseline_results(settings, BASELINES.fetch(settings.collector, settings.collector))
  exit Summary.of_baseline(baseline).print ? 0 : 1 unless BASELINES.include?(settings.collector)
  comparison = Comparison.new(ashlar_results(settings, baseline), baseline)
  exit Summary.of_comparison(comparison).print ? 0 : 1
end

main
