require "fileutils"
require "json"
require_relative "job"

# What the default collector did with each job on this machine, kept in the cache beside
# the Ruby it was run with.
class Baseline
  # Raise when a harness runs other tests, or names them otherwise.
  FORM = 1

  def initialize(toolchain)
    place = toolchain.build_tree? ? File.dirname(toolchain.build) : File.join(toolchain.logs, "installed")
    @folder = File.join(place, "baseline-#{FORM}")
    FileUtils.mkdir_p(@folder)
  end

  # A file of tests that was killed or stopped is not kept: what is ours in it would be taken for the default collector's
  # for ever.
  def include?(job) = File.exist?(file(job)) && !read(job).trouble

  def record(result)
    text = JSON.pretty_generate(
      "outcomes" => result.outcomes.values.map { [_1.id, _1.status, _1.message] },
      "trouble" => result.trouble, "seconds" => result.seconds, "log" => result.log, "flaky" => result.flaky
    )
    unfinished = "#{file(result.job)}.#{Process.pid}"
    File.write(unfinished, text)
    File.rename(unfinished, file(result.job))
  end

  def results(jobs) = jobs.map { read(_1) }

  private

  def file(job) = File.join(@folder, "#{job.log_name.delete_suffix(".log")}.json")

  def read(job)
    data = JSON.parse(File.read(file(job)))
    outcomes = data["outcomes"].to_h { |fields| [fields.first, Outcome.new(*fields)] }
    Result.new(job:, outcomes:, trouble: data["trouble"], seconds: data["seconds"], log: data["log"], flaky: data["flaky"])
  end
end
