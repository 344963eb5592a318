require "etc"

# The Ruby under test and where its sources, its build and our files are.
Toolchain = Struct.new(:ruby, :source, :build, :clone, :inside) do
  def self.from_environment
    new(ENV.fetch("RUBY"), ENV.fetch("RUBY_SOURCE"), ENV.fetch("RUBY_BUILD"), File.expand_path("../..", __dir__), false)
  end

  # The same tests, on the Ruby with Ashlar inside.
  def with_ashlar_inside = dup.tap { _1.ruby, _1.inside = ENV.fetch("RUBY_INSIDE"), true }

  # An installed Ruby has no build tree: the tests of C extensions made for tests need one.
  def build_tree? = !build.empty?

  def excludes = File.join(clone, "ruby/excludes")

  def logs = File.join(clone, "build/ruby-tests")

  # The command that runs this Ruby, as Ruby's own `make test-all` does: from the build
  # tree, so that the extensions made for tests are found, also by the Rubies that tests start.
  def test_ruby
    return ["env", "RUBYLIB=#{build}/.ext/common:#{extensions}", ruby, "--disable-gems"] if inside && build_tree?
    return [ruby, "--disable-gems"] unless build_tree?
    ["#{build}/miniruby", "-I#{source}/lib", "-I#{build}", "-I#{build}/.ext/common",
     "#{source}/tool/runruby.rb", "--archdir=#{build}", "--extout=#{build}/.ext", "--", "--disable-gems"]
  end

  private

  # Any Ruby of this version can load them, whatever its collector.
  def extensions = File.dirname(Dir.glob("#{build}/.ext/*/-test-").first)
end

# A collector to test: what to call it, the name Ruby loads it by, folders with excludes,
# and environment variables for every test process.
Collector = Struct.new(:name, :library, :excludes, :environment)
