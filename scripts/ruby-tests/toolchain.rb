require "etc"
require "open3"

CLONE = File.expand_path("../..", __dir__)

# A Ruby under test and where its sources, its build and our files are.
Toolchain = Struct.new(:ruby, :source, :build) do
  # The Ruby with Ashlar inside, the one from whose objects it is linked, or the one that can
  # load a collector.
  def self.of(collector)
    name = { "inside" => "RUBY_INSIDE", "stock" => "RUBY_BASE" }.fetch(collector, "RUBY")
    build = name == "RUBY" ? "RUBY_BUILD" : "#{name}_BUILD"
    new(ENV.fetch(name), ENV.fetch("RUBY_SOURCE"), ENV.fetch(build))
  end

  # An installed Ruby has no build tree: the tests of C extensions made for tests need one.
  def build_tree? = !build.empty?

  def logs = File.join(CLONE, "build/ruby-tests")

  # The command that runs this Ruby, as Ruby's own `make test-all` does: from the build
  # tree, so that the extensions made for tests are found, also by the Rubies that tests start.
  def test_ruby
    return [ruby, "--disable-gems"] unless build_tree?
    ["#{build}/miniruby", "-I#{source}/lib", "-I#{build}", "-I#{build}/.ext/common",
     "#{source}/tool/runruby.rb", "--archdir=#{build}", "--extout=#{build}/.ext", "--", "--disable-gems"]
  end

  # Tests start Rubies of their own, and find them in more than one way. If one is another
  # Ruby than this, they test nothing.
  def check_started_rubies(collector)
    program = <<~RUBY
      require #{"#{source}/tool/lib/envutil".dump}
      require "rbconfig"
      rubies = [#{ruby.dump}, EnvUtil.rubybin, RbConfig.ruby, "ruby"].to_h { [_1, IO.popen([_1, "--disable-gems", "-v"], &:read).chomp] }
      others = rubies.reject { |_, version| version == RUBY_DESCRIPTION }
      abort "tests would run in \#{RUBY_DESCRIPTION} and start \#{others}" unless others.empty?
    RUBY
    environment = { "RUBY_GC_LIBRARY" => collector.library, "RUBYOPT" => nil, "RUBYLIB" => nil }
    output, status = Open3.capture2e(environment, *test_ruby, "-e", program)
    abort "ruby-tests: #{output}" unless status.success?
  end
end

# A collector to test: what to call it, the name Ruby loads it by (nil for one that is compiled
# in), folders with excludes, and environment variables for every test process.
Collector = Struct.new(:name, :library, :excludes, :environment) do
  def self.of(name)
    case name
    when "ashlar" then new(name, ENV.fetch("ASHLAR_GC_LIBRARY"), ["#{CLONE}/ruby/excludes"], {})
    when "inside" then new(name, nil, ["#{CLONE}/ruby/excludes", "#{CLONE}/ruby/excludes/inside"], {})
    when "default" then new(name, name, [], {})
    when "stock" then new(name, nil, [], {})
    end
  end
end
