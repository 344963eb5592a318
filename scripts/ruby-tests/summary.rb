require_relative "comparison"

# Words for a person at the end of a run. The last line stands alone:
# N passed, N failed, N skipped
class Summary
  def self.of_comparison(comparison) = new(comparison.results, comparison)
  def self.of_baseline(results) = new(results, nil)

  def initialize(results, comparison)
    @results = results
    @comparison = comparison
  end

  # True when nothing failed that the default collector passes.
  def print
    table
    failed = @comparison ? compare : list_failures
    puts "", "#{total("passed")} passed, #{failed} failed, #{total("skipped") + total("excluded")} skipped"
    failed.zero?
  end

  private

  def total(status) = @results.sum { _1.count(status) }

  def table
    puts format("%-16s %8s %8s %8s %8s %9s", "", "passed", "failed", "skipped", "excluded", "minutes")
    @results.group_by { _1.job.harness.name }.each do |name, results|
      counts = %w[passed failed skipped excluded].map { |status| results.sum { _1.count(status) } }
      puts format("%-16s %8d %8d %8d %8d %9.1f", name, *counts, results.sum(&:seconds) / 60)
    end
  end

  # The default collector on its own: everything that fails.
  def list_failures
    alone = Comparison.new(@results, @results)
    list("failed", alone.failed_in_baseline_too)
    alone.failed_in_baseline_too.size
  end

  def compare
    list("left out for a reason (ruby/excludes, or Ruby's own test/.excludes)", @comparison.excluded)
    list("skipped here, passed on the default collector", @comparison.skipped_only_here)
    list("fail on the default collector too (not counted)", @comparison.failed_in_baseline_too)
    list("flaky: failed, then passed when run alone (not counted as failed)", @comparison.flaky)
    list("ran on the default collector, not reached here", @comparison.never_ran)
    list("FAILED", @comparison.failed)
    @comparison.failed.size
  end

  MOST_PER_FILE = 40

  def list(title, findings)
    return if findings.empty?
    puts "", "#{title}: #{findings.size}"
    findings.group_by(&:log).each do |log, group|
      group.first(MOST_PER_FILE).each do |finding|
        puts "  #{finding.id}"
        puts "      #{finding.message[0, 200]}" unless finding.message.empty?
      end
      puts "  and #{group.size - MOST_PER_FILE} more" if group.size > MOST_PER_FILE
      puts "      log: #{log}"
    end
  end
end
