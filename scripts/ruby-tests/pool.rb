require_relative "process"
require_relative "progress"

# Runs jobs, several at once, then runs every failed test twice more, alone.
class Pool
  RETRIES = 2

  def initialize(toolchain, collector, workers, slowdown)
    toolchain.check_started_rubies(collector)
    @collector = collector
    @workers = workers
    @slowdown = slowdown
    @logs = File.join(toolchain.logs, collector.name)
  end

  # Gives the results in the order of the jobs; yields each when it is final.
  def run(jobs)
    FileUtils.mkdir_p(@logs)
    @progress = Progress.new("Ruby's tests on #{@collector.name}", jobs.size)
    results = first_runs(jobs)
    results.each do |result|
      run_again(result)
      yield result if block_given?
    end
    @progress.finish
    jobs.map { |job| results.find { _1.job == job } }
  end

  private

  def first_runs(jobs)
    waiting = Queue.new
    jobs.each { waiting << _1 }
    waiting.close
    results = Queue.new
    threads = Array.new(@workers) do
      Thread.new do
        while (job = waiting.pop)
          @progress.begin(job)
          result = TestProcess.run(job, @collector, File.join(@logs, job.log_name), slowdown: @slowdown)
          results << result
          @progress.end(result)
        end
      end
    end
    threads.each(&:join)
    Array.new(results.size) { results.pop }
  end

  # A test that passes in any further run is flaky. A file that crashed or ran into its
  # time limit has failed as it is, and is not run again.
  def run_again(result)
    return if result.trouble
    failed = result.failed.map(&:id)
    1.upto(RETRIES) do |attempt|
      break if failed.empty?
      @progress.again(result.job, attempt)
      log = File.join(@logs, result.job.log_name.sub(/\.log\z/, ".again-#{attempt}.log"))
      again = TestProcess.run(result.job, @collector, log, slowdown: @slowdown, only: failed)
      passed = failed.select { |id| again.outcomes[id]&.status == "passed" }
      result.flaky.concat(passed)
      failed -= passed
    end
  end
end
