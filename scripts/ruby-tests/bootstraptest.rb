require_relative "job"

# bootstraptest/test_*.rb: each assertion runs the tested Ruby on its own; the driver is
# the stock Ruby. An assertion is known by its file and line, and by a number where one
# line makes several.
class BootstraptestHarness
  def initialize(toolchain)
    @toolchain = toolchain
  end

  def name = "bootstraptest"
  def time_limit_seconds = 600
  def folder = Dir.tmpdir
  def file(job) = "#{@toolchain.source}/bootstraptest/#{job.path}"

  # Assertions cannot be chosen by name, so `only` runs the file.
  def command(job, _collector, only: nil)
    [RbConfig.ruby, "--disable-gems", "#{@toolchain.source}/bootstraptest/runner.rb",
     "--ruby=#{@toolchain.ruby} --disable-gems", "--tty=no", "--color=never", "-v",
     file(job)]
  end

  LINE = /^#\d+ (test_\w+\.rb:\d+) (?:(\.|F) [\d.]+|(E))$/
  MESSAGE = /^#\d+ (test_\w+\.rb:\d+): (.*(?:\n(?!#\d+ test_|FAIL |PASS ).*)*)/

  def read(_record, log)
    text = File.read(log, encoding: "BINARY").force_encoding("UTF-8").scrub
    messages = text.scan(MESSAGE).group_by(&:first)
    times = Hash.new(0)
    outcomes = text.scan(LINE).to_h do |line, mark, _error|
      nth = times[line] += 1
      id = nth == 1 ? line : "#{line} (#{nth})"
      message = mark == "." ? "" : messages.fetch(line, []).map(&:last).join("\n")
      [id, Outcome.new(id, mark == "." ? "passed" : "failed", message)]
    end
    finished = text.match?(/^(PASS all \d+|FAIL \d+\/\d+) tests|^No tests/)
    [outcomes, finished ? nil : text[/^#\d+ (test_\w+\.rb:\d+) \z/, 1], finished]
  end
end
