require_relative "record_reader"

# spec/ruby/**, run by the mspec in Ruby's source tree, one folder at a time.
class MspecHarness
  def initialize(toolchain)
    @toolchain = toolchain
  end

  def name = "mspec"
  def time_limit_seconds = 600
  def folder = Dir.tmpdir
  def file(job) = "#{@toolchain.source}/spec/ruby/#{job.path}"

  # Examples cannot be told apart by a name alone, so `only` runs the folder.
  def command(job, collector, only: nil)
    excludes = collector.excludes.map { "#{_1}/mspec.rb" }.select { File.exist?(_1) }
    [@toolchain.ruby, "--disable-gems", "-rrbconfig", "#{@toolchain.source}/spec/mspec/bin/mspec-run",
     "-B", "#{@toolchain.source}/spec/ruby/default.mspec", "-B", "#{__dir__}/record_mspec.rb",
     *excludes.flat_map { ["-B", _1] }, "-f", "s", file(job)]
  end

  # What the specs need to start the tested Ruby themselves.
  def environment = { "RUBY_EXE" => @toolchain.ruby, "RUBY_FLAGS" => "--disable-gems", "CHECK_CONSTANT_LEAKS" => nil }

  def read(record, _log)
    reader = RecordReader.new(record)
    [reader.outcomes, reader.running, reader.finished]
  end
end
