require_relative "record_reader"

# test/**/test_*.rb, run by the test-unit copy in Ruby's source tree.
class TestUnitHarness
  def initialize(toolchain)
    @toolchain = toolchain
  end

  def name = "test-all"
  def time_limit_seconds = 600
  def folder = @toolchain.build_tree? ? @toolchain.build : Dir.tmpdir
  def file(job) = "#{@toolchain.source}/test/#{job.path}"

  def command(job, collector, only: nil)
    ruby = @toolchain.test_ruby
    source = @toolchain.source
    excludes = ["#{source}/test/.excludes", *collector.excludes].map { "--excludes-dir=#{_1}" }
    # The runner reads a name that begins with ! as "all but": the tests Ruby's own
    # `make test-all` leaves out because they judge the size of the whole process.
    names = only ? ["--name=/\\A(?:#{only.map { Regexp.escape(_1) }.join("|")})\\z/"] : ["--name=!/memory_leak/"]
    [*ruby, "#{__dir__}/record_test_unit.rb", source, "--ruby=#{ruby.shelljoin}", *excludes, *names,
     "--tty=no", "-v", file(job)]
  end

  def read(record, _log)
    reader = RecordReader.new(record)
    [reader.outcomes, reader.running, reader.finished]
  end
end
