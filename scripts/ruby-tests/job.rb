require "shellwords"

# One test and what became of it; status is passed, failed, skipped or excluded.
Outcome = Struct.new(:id, :status, :message)

# What one process that ran a job came to. `trouble` is nil when it ended as it should,
# else a phrase such as "killed by SIGSEGV". `attempts` holds the ids of tests that passed
# when they were run again.
Result = Struct.new(:job, :outcomes, :trouble, :seconds, :log, :flaky, keyword_init: true) do
  def failed = outcomes.values.select { _1.status == "failed" }
  # It did not come to its end as it should, or some test failed each time.
  def failed_again? = trouble || (failed.map(&:id) - flaky).any?
  def count(status) = outcomes.values.count { _1.status == status }
end

# A unit of work: one file or folder of tests, run in one process. A harness knows how to
# start it and how to read what it wrote.
Job = Struct.new(:harness, :path) do
  def name = "#{harness.name}/#{path}"
  # Of its file, or of all files of its folder: a guess at how long it takes.
  def bytes = [harness.file(self), *Dir.glob("#{harness.file(self)}/**/*")].sum { File.size(_1) }
  def log_name = "#{name.tr("/", ".").delete_suffix(".rb")}.log"
end
