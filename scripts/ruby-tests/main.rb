# Ruby's own tests on a chosen collector: select, run, compare with the baseline, print.
# The baseline is the same tests on a Ruby that differs in the collector alone: those that did not pass, or all.

require "optparse"
require_relative "selection"
require_relative "pool"
require_relative "baseline"
require_relative "comparison"
require_relative "summary"

Encoding.default_external = Encoding::UTF_8 # also where the locale says nothing

# What each kind of Ashlar is compared with: the default collector as a module, or compiled in.
BASELINES = { "ashlar" => "default", "inside" => "stock" }.freeze

Settings = Struct.new(:selection, :collector, :only, :workers, :fresh_baseline, :environment, :excludes, :slowdown, :whole_baseline)

def parse_settings(arguments)
  settings = Settings.new("quick", "ashlar", [], 2, false, {}, [], 1, false)
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
    options.on("--whole-baseline", "run all on the default collector, too, and list what is skipped or not reached here alone") { settings.whole_baseline = true }
    options.on("--fresh-baseline", "run the default collector again, also where it has run before") { settings.fresh_baseline = true }
    options.separator <<~TEXT

      Rules: a test that fails is run twice more, alone. Failing every time, it failed;
      passing once, it is listed as flaky and does not fail the run. A file that crashes or
      runs into its time limit has failed and is not run again, but on the default
      collector, where it is run once more, alone. A file in which something failed also
      runs on the default collector: what fails there too is listed and not counted. Logs
      are in build/ruby-tests.
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

def jobs_on(collector, settings) = Selection.jobs(settings.selection, Toolchain.of(collector), settings.only)

# These jobs without Ashlar: run once per machine and Ruby build, and remembered. A file that was killed or stopped
# beside others is run again alone: a busy machine is enough for that.
def baseline_results(settings, collector, jobs)
  toolchain = Toolchain.of(collector)
  baseline = Baseline.new(toolchain)
  missing = settings.fresh_baseline ? jobs : jobs.reject { baseline.include?(_1) }
  [settings.workers, 1].each do |workers|
    break if missing.empty?
    Pool.new(toolchain, Collector.of(collector), workers, settings.slowdown).run(missing) { baseline.record(_1) }
    missing = missing.reject { baseline.include?(_1) }
  end
  baseline.results(jobs)
end

def ashlar_results(settings)
  collector = Collector.of(settings.collector)
  collector.excludes.concat(settings.excludes)
  collector.environment.update(settings.environment)
  # Long jobs first, so that no worker is left with one at the end.
  jobs = jobs_on(settings.collector, settings).sort_by { -_1.bytes }
  Pool.new(Toolchain.of(settings.collector), collector, settings.workers, settings.slowdown).run(jobs)
end

# What did not pass on Ashlar runs on the other collector, too, or with --whole-baseline everything.
def comparison(settings)
  results = ashlar_results(settings)
  compared = settings.whole_baseline ? results : results.select(&:failed_again?)
  names = compared.to_set { _1.job.name }
  other = BASELINES.fetch(settings.collector)
  jobs = jobs_on(other, settings).select { names.include?(_1.name) }
  Comparison.new(results, baseline_results(settings, other, jobs))
end

def summary(settings)
  return Summary.of_comparison(comparison(settings)) if BASELINES.include?(settings.collector)
  Summary.of_baseline(baseline_results(settings, settings.collector, jobs_on(settings.collector, settings)))
end

exit summary(parse_settings(ARGV)).print ? 0 : 1
