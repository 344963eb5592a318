require_relative "job"

# Results on a collector against the baseline's: what is ours, what is not. The baseline has at least the jobs in which
# something failed each time.
class Comparison
  # One line of a list: the test, what to say about it, and the log that tells more.
  Finding = Struct.new(:id, :message, :log)

  attr_reader :results

  def initialize(results, baseline)
    @results = results
    @baseline = baseline.to_h { [_1.job.name, _1] }
  end

  def failed = @failed ||= troubles.reject { |result| baseline_of(result).trouble }.map { trouble_finding(_1) } +
                           failing { |result, id| !flaky?(result, id) && !fails_in_baseline?(result, id) }

  def failed_in_baseline_too =
    troubles.select { |result| baseline_of(result).trouble }.map { trouble_finding(_1) } +
    failing { |result, id| fails_in_baseline?(result, id) }

  def flaky = failing { |result, id| flaky?(result, id) && !fails_in_baseline?(result, id) }

  def skipped_only_here
    findings(results) do |result, outcome|
      outcome.status == "skipped" && in_baseline(result, outcome.id) == "passed"
    end
  end

  def excluded = findings(results) do |result, outcome|
    outcome.status == "excluded" && in_baseline(result, outcome.id) != "excluded"
  end

  # Tests of the baseline that were never reached here, because a file crashed or hung.
  def never_ran
    results.select { @baseline.key?(_1.job.name) }.flat_map do |result|
      ran = baseline_of(result).outcomes.reject { |_, outcome| outcome.status == "excluded" }.keys
      (ran - result.outcomes.keys).map { Finding.new("#{result.job.path}  #{_1}", "", result.log) }
    end
  end

  private

  def baseline_of(result) = @baseline.fetch(result.job.name)
  # What the test came to there; nil where its file did not run.
  def in_baseline(result, id) = @baseline[result.job.name]&.outcomes&.[](id)&.status
  def troubles = results.select(&:trouble)
  def flaky?(result, id) = result.flaky.include?(id)
  def fails_in_baseline?(result, id) = in_baseline(result, id) == "failed"
  def trouble_finding(result) = Finding.new(result.job.name, result.trouble, result.log)

  def failing
    findings(results) { |result, outcome| outcome.status == "failed" && yield(result, outcome.id) }
  end

  def findings(results)
    results.flat_map do |result|
      result.outcomes.values.select { |outcome| yield result, outcome }.map do |outcome|
        Finding.new("#{result.job.path}  #{outcome.id}", outcome.message.to_s.lines.map(&:strip).reject(&:empty?).first(3).join(" | "), result.log)
      end
    end
  end
end
