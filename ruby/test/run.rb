# Runs the behaviour tests: programs started in the modular Ruby on a chosen collector.
#   $RUBY_STOCK ruby/test/run.rb                        all of them, on Ashlar
#   $RUBY_STOCK ruby/test/run.rb --collector inside     on the Ruby with Ashlar inside
#   $RUBY_STOCK ruby/test/run.rb --collector default    on Ruby's own collector
#   $RUBY_STOCK ruby/test/run.rb fork_test.rb --name "collection is due"
#   $RUBY_STOCK ruby/test/run.rb --claims FILE          the claims that it names, one a line: fork_test.rb: text
# The environment is what `make env` prints. This process itself should not depend on the
# collector under test, so the stock Ruby runs it.

require "optparse"
require_relative "harness"

Encoding.default_external = Encoding::UTF_8 # also where the locale says nothing

# A shell without job control starts what runs in the background with interrupts ignored, and every program that is
# started from there inherits that. The claims are about programs that can be interrupted.
trap(:INT, "DEFAULT")

# The files are loaded into one program: a constant of two of them would be the later one's in both.
module Warning
  def self.warn(message, **)
    abort "run.rb: #{message}" if message.include?("already initialized constant")
    super
  end
end

options = { collector: "ashlar", name: nil, claims: nil, workers: 2, ruby_options: [], preload: false, valgrind: false, slowdown: 1 }
parser = OptionParser.new do |o|
  o.banner = "usage: run.rb [options] [files]"
  o.on("--collector NAME", "ashlar (the default here), inside or default") { options[:collector] = _1 }
  o.on("--name PART", "claims whose text contains PART") { options[:name] = _1 }
  o.on("--claims FILE", "the claims that the file names") { options[:claims] = _1 }
  o.on("--preload", "start every Ruby with the library preloaded, which then serves all memory") { options[:preload] = true }
  o.on("--workers N", Integer, "claims tried at once (2)") { options[:workers] = _1 }
  o.on("--ruby-option OPTION", "for every Ruby started, such as --yjit; may be repeated") { options[:ruby_options] << _1 }
  o.on("--slowdown N", Integer, "time limits are N times as long, for an emulated machine (1)") { options[:slowdown] = _1 }
  o.on("--valgrind", "start every Ruby under valgrind; an invalid access ends it with status 99") { options[:valgrind] = true }
end
begin
  files = parser.parse(ARGV)
rescue OptionParser::ParseError => error
  abort "run.rb: #{error.message}; see --help"
end
chosen = options[:claims] && File.readlines(options[:claims], chomp: true).grep_v(/\A(#|\z)/)
files = chosen.map { _1[/\A[^:]+/] }.uniq if chosen && files.empty?
files = Dir.glob("*_test.rb", base: __dir__).sort if files.empty?
["RUBY_SOURCE", options[:collector] == "inside" ? "RUBY_INSIDE" : "RUBY"].each do |name|
  abort %(run.rb: #{name} is not set; run: eval "$(make -s env)") unless ENV[name]
end

if options[:valgrind] && !system("valgrind", "--version", out: File::NULL, err: File::NULL)
  abort "run.rb: --valgrind needs valgrind: apt-get install valgrind"
end
Subject.set(options[:collector], options[:ruby_options], **options.slice(:preload, :slowdown, :valgrind))
files.each do |file|
  path = File.expand_path(File.basename(file), __dir__)
  abort "run.rb: there is no #{path}" unless File.exist?(path)
  Claims.in_file(File.basename(path)) { load path }
end
Claims.keep(chosen) if chosen
abort "run.rb: no claim has #{options[:name].inspect} in its text" if options[:name] && Claims.none?(options[:name])
exit Claims.try_all(options[:name], options[:workers]) ? 0 : 1
