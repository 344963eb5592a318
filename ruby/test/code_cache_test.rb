# The code cache: a program behaves as without it, and files that cannot be used are ignored.
require "etc"

# Writes what the cache came to in this process to the file that STAT names, once for each process.
CACHE_REPORT = <<~'RUBY'
  main = Process.pid
  at_exit { File.write(ENV["STAT"], Ashlar::CodeCache.stat.to_a.flatten.join(" ")) if ENV["STAT"] && main == Process.pid && defined?(Ashlar::CodeCache) }
RUBY

# A program in a folder of its own: `files` by name, and main.rb. Ruby's own files are not cached
# here where that would make a claim slow: the options leave RubyGems out.
class CachedProgram
  attr_reader :app, :cache

  def initialize(scene, files, main, options: ["--disable-gems"])
    @scene, @options = scene, options
    @app, @cache = File.join(scene.folder, "app"), File.join(scene.folder, "cache")
    FileUtils.mkdir_p(@app)
    write("report.rb", CACHE_REPORT)
    files.each { |name, source| write(name, source) }
    write("main.rb", main)
  end

  def path(name) = File.join(@app, name)

  def write(name, source)
    FileUtils.mkdir_p(File.dirname(path(name)))
    File.binwrite(path(name), source)
  end

  # Runs the program with the cache; what came of it, and what the cache counted.
  def run(*options, cache: @cache, env: {}, **rest)
    stat = File.join(@scene.folder, "stat")
    FileUtils.rm_f(stat)
    done = @scene.ruby_command([*@options, "-I", @app, "-r", path("report.rb"), *options, path("main.rb")],
                               env: { "ASHLAR_CODE_CACHE" => cache, "STAT" => stat, **env }, chdir: @app, **rest)
    counts = File.exist?(stat) ? File.read(stat).split.each_slice(2).to_h { |name, value| [name.to_sym, value.to_i] } : {}
    [done, counts]
  end

  # The files of code in the folder.
  def code_files = Dir.glob("#{@cache}/*.cache")

  # Runs the program without a cache, with an empty one, and twice with the code of the run before; checks that
  # they say the same, that the second run kept code and that the last ones got all from the cache.
  def same(*options, hits: nil, status: 0, **rest)
    plain, = run(*options, cache: nil, **rest)
    @scene.check_equal(status, plain.status.exitstatus) { plain.describe }
    cold, counts = run(*options, **rest)
    equal(plain, cold, "with an empty cache")
    @scene.check(counts[:kept].to_i > 0) { "nothing was kept: #{counts}" }
    2.times do
      warm, counts = run(*options, **rest)
      equal(plain, warm, "with code from the cache")
      @scene.check(counts[:hits].to_i >= (hits || 1)) { "hits: #{counts}" }
    end
    [plain, counts]
  end

  def equal(plain, other, how)
    said = ->(done) { [done.out, done.err, done.status.exitstatus].map { _1.to_s.gsub(/0x\h{16}/, "an address") } }
    differing = said.(plain).zip(said.(other)).map { |one, two| one.lines.zip(two.lines).reject { _1 == _2 } }
    @scene.check(said.(plain) == said.(other)) { "#{how} the program differs: #{differing}\nwithout:\n#{plain.describe}\n#{how}:\n#{other.describe}" }
  end
end

class Scene
  def cached(files, main, **rest) = CachedProgram.new(self, files, main, **rest)
end

# Longer than clocks of file systems take from one step to the next: then a file's time is trusted.
def let_files_settle = sleep(2.2)

# ── Hits and misses ──────────────────────────────────────────────────────────

claim "without the option nothing of the code cache is there", only: "ashlar" do
  ruby_prints("[false, nil]\n", 'puts [RubyVM::InstructionSequence.respond_to?(:load_iseq), defined?(Ashlar)].inspect')
end

claim "each file is compiled once, and when its time is trusted its source is not read", only: "ashlar" do
  program = cached({ "a.rb" => "A = 1\n", "b.rb" => "require 'a'\nB = A + 1\n" }, "require 'b'; load File.join(__dir__, 'a.rb'); puts B")
  let_files_settle
  done, counts = program.run
  check(done.ok?) { done.describe }
  check_equal([0, 4, 4], counts.values_at(:hits, :misses, :kept)) { counts } # a.rb is loaded again before it is written
  done, counts = program.run
  check_equal("2\n", done.out) { done.describe }
  check_equal([4, 0, 0, 3], counts.values_at(:hits, :misses, :sources_read, :entries)) { counts }
  check(counts[:saved_us].positive? && counts[:loaded_bytes].positive?) { counts }
end

claim "a fresh checkout, whose files have other times, uses the same code, and its times are known afterwards", only: "ashlar" do
  program = cached({ "a.rb" => "A = 1\n" }, "require 'a'; puts A")
  let_files_settle
  program.run
  other = Time.at(1_600_000_000, 1234, :nsec)
  File.utime(other, other, program.path("a.rb"))
  let_files_settle
  _, counts = program.run
  check_equal([2, 0, 1], counts.values_at(:hits, :misses, :sources_read)) { counts }
  _, counts = program.run
  check_equal([2, 0, 0], counts.values_at(:hits, :misses, :sources_read)) { counts }
end

claim "a changed file is compiled again, also when it has its old size, and its old time soon after", only: "ashlar" do
  program = cached({ "a.rb" => "A = 111\n" }, "require 'a'; puts A")
  time = Time.at(1_650_000_000, 123_456_789, :nsec)
  File.utime(time, time, program.path("a.rb"))
  program.run
  %w[222 333 444].each do |number|
    program.write("a.rb", "A = #{number}\n")
    File.utime(time, time, program.path("a.rb"))
    2.times do
      done, = program.run
      check_equal("#{number}\n", done.out) { done.describe }
    end
  end
  let_files_settle
  program.run
  program.write("a.rb", "A = 555\n")
  done, counts = program.run
  check_equal("555\n", done.out) { "#{done.describe} #{counts}" }
end

claim "times that a program has set, as for all files of a package, are not trusted", only: "ashlar" do
  program = cached({ "a.rb" => "A = 1\n" }, "require 'a'; puts A")
  old = Time.utc(1980, 1, 2)
  File.utime(old, old, program.path("a.rb"))
  let_files_settle
  program.run
  check_equal(0, program.run.last[:sources_read])
  program.write("a.rb", "A = 2\n")
  File.utime(old, old, program.path("a.rb"))
  let_files_settle
  done, = program.run
  check_equal("2\n", done.out) { done.describe }
end

claim "files of one size and one time that change places are not taken for each other", only: "ashlar" do
  program = cached({ "a.rb" => "puts :a\n", "b.rb" => "puts :b\n" }, "require 'a'")
  time = Time.at(1_650_000_000, 123_456_789, :nsec)
  %w[a.rb b.rb].each { File.utime(time, time, program.path(_1)) }
  let_files_settle
  2.times { check_equal("a\n", program.run.first.out) }
  File.rename(program.path("b.rb"), program.path("a.rb"))
  let_files_settle
  2.times { check_equal("b\n", program.run.first.out) }
end

claim "a time that a process has learnt of a file is not put on code that another process has kept of other content", only: "ashlar" do
  program = cached({ "lib/a.rb" => "puts :old\n" }, <<~'RUBY')
    lib = File.join(__dir__, "lib")
    require File.join(lib, "a")
    if ENV["DEPLOYS"]
      require "rbconfig"
      File.rename(lib, "#{lib}-old")
      Dir.mkdir(lib)
      File.write(File.join(lib, "a.rb"), "puts :newer\n")
      system({ "DEPLOYS" => nil, "STAT" => nil }, RbConfig.ruby, "--disable-gems", __FILE__) or raise
    end
  RUBY
  let_files_settle
  program.run
  other = Time.at(1_600_000_000, 1234, :nsec)
  File.utime(other, other, program.path("lib/a.rb"))
  let_files_settle
  done, = program.run(env: { "DEPLOYS" => "1" })
  check_equal(%w[newer old], done.out.split.sort) { done.describe }
  File.rename(program.path("lib"), program.path("lib-newer"))
  File.rename(program.path("lib-old"), program.path("lib"))
  2.times { check_equal("old\n", program.run.first.out) }
end

claim "code that Ruby has compiled with another folder's real path is not kept", only: "ashlar" do
  program = cached(%w[one two].to_h { |name| ["#{name}/a.rb", "puts __dir__\n"] }, <<~'RUBY')
    (ENV["FOLDERS"] || "one,two").split(",").each do |name|
      Dir.chdir(File.join(__dir__, name)) { load "./a.rb"; load "a.rb" }
    end
  RUBY
  program.run
  %w[one two one].each do |name|
    2.times do
      done, = program.run(env: { "FOLDERS" => name })
      check_equal("#{program.path(name)}\n" * 2, done.out) { done.describe }
    end
  end
end

claim "a file behind a link that leads elsewhere has its new place, not the old one", only: "ashlar" do
  program = cached({ "one/a.rb" => "puts __dir__, __FILE__; require_relative 'b'\n", "one/b.rb" => "puts :one\n",
                     "two/a.rb" => "puts __dir__, __FILE__; require_relative 'b'\n", "two/b.rb" => "puts :two\n" },
                   "require File.join(__dir__, 'current/a')")
  %w[one two one].each do |target|
    FileUtils.rm_f(program.path("current"))
    File.symlink(target, program.path("current"))
    plain, = program.run(cache: nil)
    check_match(/#{target}\n.*current\/a\.rb\n#{target}\n/m, plain.out)
    2.times { program.equal(plain, program.run.first, "behind a link to #{target}") }
  end
end

claim "files that were removed leave the file of code, and those that are there stay", only: "ashlar" do
  program = cached({ "a.rb" => "A = 1\n", "b.rb" => "B = 1\n" }, "require 'a'; require 'b' if File.exist?(File.join(__dir__, 'b.rb'))")
  program.run
  FileUtils.rm(program.path("b.rb"))
  program.write("a.rb", "A = 1000\n")
  program.run
  _, counts = program.run
  check_equal([2, 0, 2], counts.values_at(:hits, :misses, :entries)) { counts }
end

# ── A program behaves as without the cache ───────────────────────────────────

ALIKE = {
  "paths" => ["p __FILE__, __dir__, __LINE__, __method__.inspect, __FILE__.encoding, __FILE__.frozen?\ndef place = [__FILE__, __LINE__, __method__]\np place, method(:place).source_location\np RubyVM::InstructionSequence.of(method(:place)).then { [_1.path, _1.absolute_path, _1.label, _1.base_label, _1.first_lineno] }\n"],
  "backtraces" => ["def deep(x) = x.zero? ? raise(ArgumentError, 'deep') : deep(x - 1)\nbegin\n  [1].each { deep(2) }\nrescue => e\n  puts e.full_message(highlight: false), e.backtrace_locations.map { [_1.label, _1.lineno, _1.path, _1.absolute_path].inspect }\nend\nputs caller_locations(0).map(&:to_s)\n"],
  "magic comments" => ["# encoding: EUC-JP\n# frozen_string_literal: true\np __ENCODING__, 'x'.encoding, 'x'.frozen?, \"\\u3042\".encoding, :\"\\xA4\\xA2\".encoding, /\\xA4\\xA2/.encoding, 'a'.equal?('a')\n".b,
                       "# encoding: ascii-8bit\np __ENCODING__, \"\\xff\".encoding, \"\\xff\", /\\xff/n.encoding\n", "# -*- coding: shift_jis -*-\np \"\\x82\\xA0\".then { [_1.encoding, _1.valid_encoding?, _1] }\n",
                       "# frozen_string_literal: false\np 'x'.frozen?; 'x' << 'y'\n", "p 'x'.frozen?; s = 'x'; s << 'y'; p s\n", "# shareable_constant_value: literal\nA = [1, { b: 'c' }]\np A.frozen?, A[1].frozen?, Ractor.shareable?(A)\n"],
  "literals" => [<<~'RUBY'],
    p 1r, 2i, 1.5r, 3ri, 1e300, -0.0, 2**64, 123456789012345678901234567890, 1..2, 'a'..., (1..nil), nil..3
    p :"a b", :"é", %w[a b], %i[c d], { a: 1, "b" => [2, { c: 3r }], 1.0 => nil }, /a#{1 + 1}b/ix, /(?<n>.)/m, "é\0\x01", 'é'.b, "\xE9".b, `echo x`
    p [1, 2, 3, 4, 5, 6, 7, 8, 9, 10].frozen?, { a: 1 }.frozen?, (1..2).frozen?, /x/.frozen?
    p(<<~ONE + <<~'TWO')
      one #{__LINE__}
    ONE
      two #{x}
    TWO
    p __ENCODING__, "#{1}#{:a}#{nil}", "a" "b", ?a
    case [1, { k: [2, 3] }]; in [Integer => a, { k: [*, b] }] then p a, b end
    case { name: "x", age: 3 }; in { name: String => n, **rest } then p n, rest end
    begin; case 5; in String then 1 end; rescue NoMatchingPatternError => e; p e.message; end
    begin; case { a: 1 }; in { b: } then 1 end; rescue NoMatchingPatternKeyError => e; p e.message, e.key; end
  RUBY
  "methods" => [<<~'RUBY'],
    def all(a, b = 2, *c, d, e:, f: a + b, **g, &h) = [a, b, c, d, e, f, g, h&.call]
    def pass(...) = all(...)
    def anonymous(*, **, &) = all(*, **, &)
    def nothing(**nil) = 1
    p pass(1, 2, 3, 4, e: 5) { 6 }, anonymous(1, 4, e: 5), method(:all).parameters, method(:all).arity, method(:pass).parameters, method(:nothing).parameters
    ruby2_keywords def old(*args) = all(*args)
    p old(1, 2, e: 3)
    p [3, 1].sort_by { it }, [1, 2].map { _1 * 2 }, (1..10).select { true if (_1 == 3)..(_1 == 5) }
    l = ->(x, y = x, *z, k: y) { [x, y, z, k] }
    p l.(1), l.curry, l.parameters if false
    p l.(1), l.parameters, proc { |a, (b, c), *d| [a, b, c, d] }.call([1, [2, 3], 4])
    class C; attr_accessor :a; def initialize(a) = @a = a; def ==(o) = a == o.a; alias b a; private def c = 1; protected def d = 2; end
    p C.new(1) == C.new(1), C.new(2).b, C.private_instance_methods(false).sort, C.instance_method(:initialize).source_location
    module R; refine(String) { def shout = upcase + "!" }; end
    using R
    p "a".shout, ["b"].map(&:shout)
    x = 0
    begin; x += 1; raise "x" if x < 3; rescue; retry; else; p :else; ensure; p :ensure; end
    p catch(:t) { 3.times { |i| throw :t, i if i == 1 } }, [1, 2, 3].each_with_index.map { |v, i| next v if i == 1; v * i }
    p defined?(x), defined?(@y), defined?(String), defined?(puts), defined?(yield), binding.local_variables
    begin; $g = 1; @@c = 1; rescue RuntimeError, NameError; p $!.class; end
    p Class.new { def self.inherited(k) = p(:inherited) }.then { Class.new(_1) }.instance_methods(false)
    p eval("[__FILE__, __LINE__, x]"), binding.source_location, ObjectSpace.each_object(Class).include?(C)
    p RubyVM::InstructionSequence.of(method(:all)).then { |i| [i.inspect, i.disasm.lines.size, i.script_lines, i.trace_points.size, i.each_child { } && nil] }
    BEGIN { p :begin }
    END { p :end }
    at_exit { p :at_exit }
  RUBY
  "errors of every kind" => [<<~'RUBY'],
    def try
      yield
    rescue Exception => e
      puts e.detailed_message(highlight: false), e.backtrace.first
    end
    try { nil.foo(1) + 2 }
    try { { a: [nil] }[:a][0].bar }
    try { 1 + nil }
    try { Undefined::Constant }
    try { undefined_local }
    try { Integer("x") }
    try { raise "x" rescue raise TypeError, "y" }
    try { eval("1 +") }
    try { "a".frozen_thing = 1 }
    try { [].fetch(3) }
  RUBY
  "__END__" => ["p defined?(DATA) && DATA.read\n__END__\nnot mine\n"]
}.freeze

ALIKE.each do |about, sources|
  claim "#{about} in required and loaded files are as without the cache", only: "ashlar" do
    files = sources.each_with_index.to_h { |source, i| ["f#{i}.rb", source] }
    main = sources.each_index.map { |i| <<~RUBY }.join + "\n__END__\nof main\n"
      require "f#{i}"
      load File.join(__dir__, "f#{i}.rb")
      load "./f#{i}.rb", true
      load "f#{i}.rb", Module.new
    RUBY
    cached(files, main, options: []).same(hits: sources.size * 4)
  end
end

claim "error_highlight, did_you_mean and AbstractSyntaxTree.of find what they need", only: "ashlar" do
  source = <<~'RUBY'
    def wrong = { a: 1 }.fetch(:a).lenght + [1, nil].map { |x| x.size }.sum
    def ast
      node = RubyVM::AbstractSyntaxTree.of(method(:wrong)) rescue (return $!.class)
      node.type
    end
  RUBY
  main = "require 'a'; p ast; p RubyVM::InstructionSequence.of(method(:ast)).to_a[4].then { _1.slice(:node_id, :code_location, :parser) }; wrong"
  plain, = cached({ "a.rb" => source }, main, options: []).same(status: 1, hits: 1)
  check_match(/\^{5,}/, plain.err)
  %w[parse.y prism].each do |parser|
    program = cached({ "a.rb" => source }, main, options: ["--parser=#{parser}"])
    FileUtils.rm_rf(program.cache)
    program.same(status: 1, hits: 1)
  end
end

claim "a SyntaxError is as without the cache, each time, and the mended file is loaded", only: "ashlar" do
  main = "begin; require 'a'; rescue SyntaxError => e; puts e.message, e.path.inspect, e.backtrace; exit 3; end; puts x"
  %w[prism parse.y].each do |parser|
    program = cached({ "a.rb" => "def x\n  1 +\nend\nputs 'é\n" }, main, options: ["--disable-gems", "--parser=#{parser}"])
    FileUtils.rm_rf(program.cache)
    program.same(status: 3)
    program.write("a.rb", "def x\n  1 + 1\nend\n")
    3.times { check_equal("2\n", program.run.first.out) }
  end
end

claim "warnings of the compiler are given each time, by whatever shows them", only: "ashlar" do
  files = { "loud.rb" => "def a\n  x = 1\n  if x = 2 then end\n  nil\nend\n{ a: 1, a: 2 }\n", "quiet.rb" => "Q = 1\n", "old.rb" => "case [1]\nin [a] then a\nend\n'a' << 'b'\n" }
  main = "require 'loud'; require 'quiet'; require 'old'; warn 'mine'; warn 'older', category: :deprecated, uplevel: 0; Warning.warn(\"direct\\n\")"
  program = cached(files, main)
  [[], ["-w"], ["-W0"], ["-W:deprecated"], ["-W:no-experimental", "-W:performance"], ["-w"], []].each do |options|
    plain, = program.run(*options, cache: nil)
    3.times { program.equal(plain, program.run(*options).first, "with #{options}") }
  end
  own = cached(files, "def Warning.warn(text, **) = $stdout.print('own: ', text)\n" + main)
  plain, = own.run("-w", cache: nil)
  check_match(/own: .*loud/, plain.out)
  3.times { own.equal(plain, own.run("-w").first, "with a Warning.warn of its own") }
end

claim "coverage is counted as without the cache", only: "ashlar", needs: "coverage" do
  program = cached({ "a.rb" => "def a(x)\n  if x\n    1\n  else\n    2\n  end\nend\na(1)\n", "b.rb" => "B = 1\n" },
                   "require 'coverage.so'; require 'b'; Coverage.start(lines: true, branches: true, methods: true) if ENV['COVER']\nrequire 'a'\np Coverage.result if ENV['COVER']")
  program.run
  plain, = program.run(cache: nil, env: { "COVER" => "1" })
  check_match(/branches/, plain.out)
  2.times { program.equal(plain, program.run(env: { "COVER" => "1" }).first, "with coverage") }
end

claim "options of the compiler that differ make other code", only: "ashlar" do
  program = cached({ "a.rb" => "p 'a'.frozen?, RubyVM::InstructionSequence.of(method(def a = 1 + 1)).disasm.include?('opt_plus')\n" }, "require 'a'")
  [[], ["--enable=frozen-string-literal"], ["--disable=frozen-string-literal"], ["--enable=frozen-string-literal", "--debug-frozen-string-literal"], []].each do |options|
    plain, = program.run(*options, cache: nil)
    2.times { program.equal(plain, program.run(*options).first, "with #{options}") }
  end
  changing = cached({ "a.rb" => "p RubyVM::InstructionSequence.of(method(def a = 1 + 1)).disasm.include?('opt_plus')\n", "b.rb" => "B = 1\n" }, <<~'RUBY')
    require "b"
    load "a.rb"
    before = RubyVM::InstructionSequence.compile_option
    RubyVM::InstructionSequence.compile_option = { operands_unification: false, specialized_instruction: false, inline_const_cache: false }
    load "a.rb"
    RubyVM::InstructionSequence.compile_option = before
    load "a.rb"
  RUBY
  changing.same(hits: 4)
end

claim "the encoding of source that -K names makes other code", only: "ashlar" do
  program = cached({ "a.rb" => "p __ENCODING__, 'a'.encoding\n" }, "# encoding: utf-8\nrequire #{File.join(folder, "app/a.rb").inspect}",
                   options: ["--disable-gems", "--parser=parse.y"])
  [[], ["-Ke"], ["-Ks"], []].each do |options|
    plain, = program.run(*options, cache: nil)
    2.times { program.equal(plain, program.run(*options).first, "with #{options}") }
  end
end

claim "a program that has replaced what is asked of Ruby is loaded", only: "ashlar" do
  ["Object.send(:remove_const, :RUBY_DESCRIPTION); RUBY_DESCRIPTION = nil",
   "Object.send(:remove_const, :RUBY_COPYRIGHT); RUBY_COPYRIGHT = :c",
   "def Warning.[](category) = raise('asked for ' + category.inspect)"].each do |replaced|
    program = cached({ "a.rb" => "A = 1\n" }, "#{replaced}; require 'a'; p A", options: ["--disable-gems", "-W1"])
    plain, = program.run(cache: nil)
    2.times { program.equal(plain, program.run.first, "after #{replaced}") }
  end
end

claim "script lines are kept where a program asks for them", only: "ashlar" do
  files = { "a.rb" => "def a\n  1\nend\n" }
  program = cached(files, "require 'a'", options: ["--disable-gems", "--parser=parse.y"])
  program.run
  program.write("main.rb", "RubyVM.keep_script_lines = true; require 'a'; p RubyVM::InstructionSequence.of(method(:a)).script_lines")
  plain, = program.run(cache: nil)
  program.equal(plain, program.run.first, "with script lines")
  program.write("main.rb", "SCRIPT_LINES__ = {}; require 'a'; p SCRIPT_LINES__.values.map(&:size)")
  program.equal(program.run(cache: nil).first, program.run.first, "with SCRIPT_LINES__")
end

claim "a TracePoint sees scripts, lines and calls as without the cache", only: "ashlar" do
  program = cached({ "a.rb" => "def a(x)\n  x + 1\nend\na(1)\nclass K\n  def k = 2\nend\n" }, <<~'RUBY')
    seen = []
    TracePoint.new(:script_compiled, :line, :call, :return, :class, :end) { seen << [_1.event, _1.path, _1.lineno, (_1.instruction_sequence.label if _1.event == :script_compiled)] }.enable { require "a"; K.new.k }
    p seen.reject { |_, path| path == "<internal:ashlar>" } # Ruby asks there for the code
  RUBY
  program.run
  plain, = program.run(cache: nil)
  check_match(/script_compiled/, plain.out)
  2.times { program.equal(plain, program.run.first, "with a TracePoint") }
end

claim "threads that load many files at once, and Ractors, get the right code", only: "ashlar" do
  files = (0...60).to_h { |i| ["f#{i}.rb", "def f#{i} = #{i}\nmodule M#{i}; X = #{i}; end\n"] }
  program = cached(files, <<~'RUBY')
    Thread.abort_on_exception = true
    8.times.map { |t| Thread.new { 60.times.to_a.rotate(t * 7).each { |i| t.even? ? require("f#{i}") : load("f#{i}.rb") } } }.each(&:join)
    raise unless 60.times.all? { |i| send("f#{i}") == i && Object.const_get("M#{i}")::X == i }
    puts "ok"
  RUBY
  3.times { check_equal("ok\n", program.run("-W0").first.out) }
  _, counts = program.run("-W0")
  check_equal(0, counts[:misses]) { counts }
  ractors = cached({ "a.rb" => "A = 1\n", "b.rb" => "B = 2\n" }, "Warning[:experimental] = false\nrequire 'a'; r = Ractor.new { require 'b' rescue 0; load('a.rb') rescue 1; A + (defined?(B) ? B : 2) }\nputs(r.respond_to?(:value) ? r.value : r.take)")
  ractors.same("-W0")
end

# ── What comes from outside meanwhile ────────────────────────────────────────

claim "what a signal's handler or another thread raises while a cached file is loaded is the program's, and no code is called damaged", only: "ashlar" do
  ["Process.kill(:USR1, $$)", "Thread.new(Thread.current) { _1.raise('from outside') }.join"].each do |event|
    program = cached({ "a.rb" => "A = 1\n" }, <<~RUBY)
      trap(:USR1) do
        trap(:USR1, "IGNORE")
        raise "from outside"
      end
      class << RubyVM::InstructionSequence
        alias load_from_binary_before load_from_binary
        def load_from_binary(binary) = (#{event}; load_from_binary_before(binary))
      end
      begin
        require "a"
      rescue => error
        puts error.message
      end
      p Ashlar::CodeCache.stat[:damaged]
    RUBY
    program.run
    done, = program.run
    check_equal("from outside\n0\n", done.out) { done.describe }
  end
end

claim "a thread that is killed while the cache is asked for code ends", only: "ashlar" do
  program = cached({ "a.rb" => "A = 1\n" }, <<~'RUBY')
    asked = Queue.new
    class << Warning; self; end.prepend(Module.new do
      define_method(:[]) do |category|
        if Thread.current[:is_loader]
          asked << true
          sleep 0.2
        end
        super(category)
      end
    end)
    loader = Thread.new do
      Thread.current[:is_loader] = true
      require "a"
      Thread.current[:is_loader] = nil
      sleep
    end
    asked.pop
    loader.kill
    $stdout.sync = true
    puts loader.join(20) ? "ended" : "goes on"
    exit!(0)
  RUBY
  2.times do
    done, = program.run
    check_equal("ended\n", done.out) { done.describe }
  end
end

claim "a signal that comes while compiled code is kept ends the program, or does what its handler says", only: "ashlar" do
  ["", "trap(:INT) { exit 3 }", "trap(:INT) { raise Interrupt }"].each do |handler|
    program = cached({ "a.rb" => "A = 1\n" }, <<~RUBY)
      #{handler}
      class RubyVM::InstructionSequence
        alias to_binary_before to_binary
        def to_binary(*all) = (Process.kill(:INT, $$); to_binary_before(*all))
      end
      require "a"
      puts "went on"
    RUBY
    done, = program.run
    check_equal("", done.out) { done.describe }
    check(handler.include?("exit") ? done.status.exitstatus == 3 : done.status.termsig == Signal.list["INT"]) { done.describe }
    FileUtils.rm_rf(program.cache)
  end
end

claim "what another thread raises while compiled code is kept is not lost where finalizers run meanwhile", only: "ashlar" do
  program = cached({ "a.rb" => "A = 1\n" }, <<~'RUBY')
    def drop = 50.times { ObjectSpace.define_finalizer(Object.new, proc { $finalized = true }) }
    class RubyVM::InstructionSequence
      alias to_binary_before to_binary
      def to_binary(*all)
        drop
        GC.start
        thread = Thread.current
        Thread.new { thread.raise("told") }.join
        sleep 0.01
        to_binary_before(*all)
      end
    end
    begin
      require "a"
      puts "lost"
    rescue => error
      puts "#{error.message} #{$finalized}"
    end
  RUBY
  done, = program.run
  check_equal("told true\n", done.out) { done.describe }
end

claim "a program that has a load_iseq of its own has its way", only: "ashlar" do
  program = cached({ "a.rb" => "puts :from_file\n" }, <<~'RUBY')
    class << RubyVM::InstructionSequence
      prepend(Module.new { def load_iseq(path) = RubyVM::InstructionSequence.compile("puts :own", path, path) })
    end
    require "a"
  RUBY
  2.times { check_equal("own\n", program.run.first.out) }
end

claim "a load_iseq of the program that calls the cache's gets the file's code, as it compiles it, and what it makes of it is not kept", only: "ashlar" do
  files = { "a.rb" => "puts :from_file, 'a'.frozen?\n" }
  program = cached(files, "require 'a'")
  2.times { check_equal("from_file\nfalse\n", program.run.first.out) }
  own = <<~'RUBY'
    class << RubyVM::InstructionSequence
      prepend(Module.new do
        def load_iseq(path)
          before = compile_option
          self.compile_option = { frozen_string_literal: true }
          (super or raise "no code").eval
          compile("puts :own", path, path)
        ensure
          self.compile_option = before
        end
      end)
    end
  RUBY
  program.write("main.rb", "#{own}; require 'a'")
  2.times { check_equal("from_file\ntrue\nown\n", program.run.first.out) }
  FileUtils.rm_rf(program.cache)
  2.times { check_equal("from_file\ntrue\nown\n", program.run.first.out) }
  program.write("main.rb", "require 'a'")
  2.times { check_equal("from_file\nfalse\n", program.run.first.out) }
end

claim "a file that a program mends in a load_iseq of its own, after Ruby found it wrong, is not kept as mended", only: "ashlar" do
  program = cached({ "a.rb" => "puts :right)\n" }, <<~'RUBY')
    begin
      load "a.rb"
    rescue SyntaxError
      raise unless ENV["MENDS"]
      RubyVM::InstructionSequence.singleton_class.prepend(Module.new { def load_iseq(path) = compile("puts :mended", path, path) })
      load "a.rb"
    end
  RUBY
  check_equal("mended\n", program.run(env: { "MENDS" => "1" }).first.out)
  check_match(/SyntaxError/, program.run.first.err)
end

claim "a load_iseq of the program takes the place of the cache's without a warning", only: "ashlar" do
  program = cached({ "a.rb" => "puts :from_file\n" }, <<~'RUBY')
    def (RubyVM::InstructionSequence).load_iseq(path) = compile("puts :own", path, path)
    require "a"
  RUBY
  2.times do
    done, = program.run("-w")
    check_equal(["own\n", ""], [done.out, done.err])
  end
end

claim "a main file that was loaded before, in vain, is not kept as a file to load", only: "ashlar" do
  %w[prism parse.y].each do |parser|
    program = cached({ "first.rb" => "begin; load ENV['MAIN']; rescue SyntaxError; end\n" }, "this is no Ruby(\n#!ruby\nputs :main\n",
                     options: ["--disable-gems", "--parser=#{parser}"])
    env = { "MAIN" => program.path("main.rb") }
    check_equal("main\n", program.run("-x", "-r", program.path("first.rb"), env:).first.out)
    done = ruby_command(["--disable-gems", "--parser=#{parser}", "-e", "begin; load ENV['MAIN']; rescue SyntaxError; puts :wrong; end"],
                        env: { "ASHLAR_CODE_CACHE" => program.cache, **env })
    check_equal("wrong\n", done.out) { "#{parser}: #{done.describe}" }
  end
end

claim "gems can ask where load_iseq lies, as they do to know Bootsnap's", only: "ashlar" do
  program = cached({ "a.rb" => "A = 1\n" }, 'p RubyVM::InstructionSequence.method(:load_iseq).source_location[0].include?("/bootsnap/")')
  2.times { check_equal("false\n", program.run.first.out) }
end

claim "with -d Ruby says what it says without the cache", only: "ashlar" do
  program = cached({ "a.rb" => "# frozen_string_literal: true\nA = 'x'\n" }, "require 'a'; A << 'y'")
  program.run
  plain, = program.run("-d", cache: nil)
  check_match(/created at .*a\.rb:2/, plain.err)
  2.times { program.equal(plain, program.run("-d").first, "with -d") }
end

claim "with a collection at every turn, and with everything moved, code from the cache runs", only: "ashlar" do
  files = { "a.rb" => ALIKE["methods"][0], "b.rb" => ALIKE["literals"][0] }
  %w[collect-every:200,verify move-everything,collect-every:2000].each do |switches|
    program = cached(files, "require 'a'; require 'b'; GC.start; GC.compact; load 'a.rb'; puts :ok", options: ["--disable-gems"])
    plain, = program.run(cache: nil)
    3.times { program.equal(plain, program.run(env: stress(*switches.split(",")), limit: 120).first, switches) }
  end
end

# ── Writing ──────────────────────────────────────────────────────────────────

claim "forty processes that start at once leave one sound file, and all run", only: "ashlar" do
  files = (0...30).to_h { |i| ["f#{i}.rb", "def f#{i}(x) = x + #{i}\nF#{i} = #{Array.new(50) { _1 * i }}\n"] }
  program = cached(files, '30.times { |i| require "f#{i}" }; puts f29(1) + F3[2]; sleep 0.01 * rand(20)')
  File.write(path = program.path("forty.rb"), <<~'RUBY')
    outs = Array.new(40) { IO.popen([RbConfig.ruby, "--disable-gems", "-I", __dir__, File.join(__dir__, "main.rb")]) }
    puts outs.map(&:read).tally.inspect
  RUBY
  env = { "ASHLAR_CODE_CACHE" => program.cache }
  2.times do
    done = ruby_command(["--disable-gems", "-rrbconfig", path], env:, limit: 120)
    check_equal("{\"36\\n\" => 40}\n", done.out) { done.describe }
    check_equal("", done.err)
  end
  _, counts = program.run
  check(counts[:misses] <= 1) { counts } # report.rb, which the forty have not loaded
  names = Dir.children(program.cache).map { File.extname(_1) }.sort
  check_equal(%w[.cache .lock], names - [".ran"])
end

claim "what was compiled is written at Process.warmup and before a fork, and a child writes its own", only: "ashlar" do
  program = cached({ "a.rb" => "A = 1\n" }, "require 'a'; Process.warmup; Process.kill(:KILL, Process.pid)")
  program.run
  check_equal(1, program.code_files.size)
  _, = program.run
  program.write("main.rb", "require 'a'; puts Ashlar::CodeCache.stat[:hits]")
  check_equal("2\n", program.run.first.out)
  forking = cached({ "a.rb" => "A = 1\n", "b.rb" => "B = 1\n" }, "require 'a'; fork { require 'b'; exit }; Process.wait; Process.kill(:KILL, Process.pid)")
  FileUtils.rm_rf(forking.cache)
  forking.run
  forking.write("main.rb", "require 'a'; require 'b'; puts Ashlar::CodeCache.stat.values_at(:hits, :misses).inspect")
  check_equal("[3, 0]\n", forking.run.first.out)
end

claim "a program goes on with the file that it has mapped when that is replaced or removed", only: "ashlar" do
  program = cached((0...20).to_h { |i| ["f#{i}.rb", "def f#{i} = #{i}\n"] }, '20.times { |i| require "f#{i}" }; puts f19')
  program.run
  program.write("main.rb", <<~'RUBY')
    10.times { |i| require "f#{i}" }
    file, = Dir.glob("#{ENV.fetch("ASHLAR_CODE_CACHE")}/*.cache")
    File.write("#{file}.new", "something else")
    File.rename("#{file}.new", file)
    15.times { |i| require "f#{i}" }
    File.delete(file)
    20.times { |i| require "f#{i}" }
    puts f19, Ashlar::CodeCache.stat.values_at(:hits, :misses).inspect
  RUBY
  check_equal("19\n[21, 0]\n", program.run.first.out)
  # Nothing was new, so that nothing was written; the next program begins again.
  program.write("main.rb", '20.times { |i| require "f#{i}" }; puts Ashlar::CodeCache.stat.values_at(:hits, :misses).inspect')
  ["[0, 21]\n", "[21, 0]\n"].each { check_equal(_1, program.run.first.out) }
end

claim "the file and its folder are for this user alone, and a relative folder is where the program began", only: "ashlar" do
  program = cached({ "a.rb" => "A = 1\n" }, "require 'a'; Dir.chdir('/')")
  program.run(cache: "here")
  folder = program.path("here")
  check_equal(0o700, File.stat(folder).mode & 0o777)
  Dir.children(folder).each { |name| check_equal(0o600, File.stat(File.join(folder, name)).mode & 0o777) { name } }
  check_equal(2, Dir.children(folder).size)
end

# ── Refusals: one line under -w, and the program runs ────────────────────────

# Spoils the cache with the block, and checks that the program runs as without it, with one line
# under -w that matches.
def spoilt(line, again: true)
  program = cached({ "a.rb" => "def a = 1\nA = [a] * 3\n" }, "require 'a'; p A")
  program.run("-w") # what gives no warning there gives none elsewhere
  kept = program.code_files.fetch(0)
  whole = File.binread(kept)
  folder_mode = File.stat(program.cache).mode
  [["-w", 1], [nil, 0]].each do |option, lines|
    FileUtils.chmod(folder_mode & 0o777, program.cache) if File.directory?(program.cache) && !File.symlink?(program.cache)
    yield program, kept, whole
    done, = program.run(*option)
    check_equal("[1, 1, 1]\n", done.out) { done.describe }
    check_equal(lines, done.err.lines.size) { done.describe }
    check_match(/\Aashlar: ASHLAR_CODE_CACHE=\S+: .*#{line}/, done.err) if lines == 1
  end
  return unless again

  # The file has been written anew.
  _, counts = program.run
  check_equal(0, counts[:misses]) { counts }
end

claim "an impossible folder stops Ruby with one line", only: "ashlar" do
  file = File.join(folder, "file")
  File.write(file, "")
  done = ruby_command(["-e", "puts :ran"], env: { "ASHLAR_CODE_CACHE" => file })
  check_equal([1, "", "ashlar: ASHLAR_CODE_CACHE=#{file}: it is there and is no folder; name a folder\n"], [done.status.exitstatus, done.out, done.err])
end

claim "the option is shown, and cannot change later", only: "ashlar" do
  ruby_prints("nil\ncode_cache=/x: the folder that was chosen at the start is wanted\n", "p GC.config[:code_cache]; begin; GC.config(code_cache: '/x'); rescue ArgumentError => e; puts e.message; end")
  ruby_prints("\"#{folder}/c\"\n", "GC.config(code_cache: GC.config[:code_cache]); p GC.config[:code_cache]", env: { "ASHLAR_CODE_CACHE" => "#{folder}/c" })
end

claim "a folder that others may write to is not used", only: "ashlar" do
  spoilt("its mode is 770: others than its owner may write to it; there is no code cache", again: false) { |program, _, _| File.chmod(0o770, program.cache) }
end

claim "a folder that is a link is not used", only: "ashlar" do
  spoilt("ot a directory; there is no code cache", again: false) do |program, _, _|
    File.rename(program.cache, "#{program.cache}-real") unless File.symlink?(program.cache)
    FileUtils.rm_f(program.cache)
    File.symlink("#{program.cache}-real", program.cache)
  end
end

claim "a program goes on when the line about its cache cannot be written", only: "ashlar" do
  program = cached({ "a.rb" => "A = 1\n" }, "$stdout.sync = true; $stderr.reopen('/dev/full'); require 'a'; p A; Process.warmup; p A")
  done, = program.run("-w", cache: "/sys")
  check_equal([0, "1\n1\n"], [done.status.exitstatus, done.out]) { done.describe }
end

claim "a folder that cannot be made is not used", only: "ashlar" do
  program = cached({ "a.rb" => "A = 1\n" }, "require 'a'; p A")
  done, = program.run("-w", cache: "/proc/nothing/here")
  check_equal(["1\n", 1], [done.out, done.err.lines.size]) { done.describe }
  check_match(/it cannot be made: No such file or directory; there is no code cache/, done.err)
end

claim "where nothing can be written, the program runs", only: "ashlar" do
  program = cached({ "a.rb" => "A = 1\n" }, "require 'a'; p A")
  done, = program.run("-w", cache: "/sys")
  check_equal(["1\n", 1], [done.out, done.err.lines.size]) { done.describe }
  check_match(/nothing has been written/, done.err)
end

claim "where a limit of the size of files is in the way, the program runs", only: "ashlar" do
  program = cached({ "a.rb" => "A = 1\n#{(1..500).map { |i| "def a#{i} = [1, 2]\n" }.join}" }, "Process.setrlimit(:FSIZE, 2_000); require 'a'; p A; Process.warmup; p A")
  done, = program.run("-w")
  check_equal([0, "1\n1\n"], [done.status.exitstatus, done.out]) { done.describe }
  check_match(/nothing has been written/, done.err)
  check_equal([], Dir.glob("#{program.cache}/{*.cache,.ashlar-*.part}", File::FNM_DOTMATCH))
end

claim "a folder that is a link is not used when a slash follows its name either", only: "ashlar" do
  program = cached({ "a.rb" => "A = 1\n" }, "require 'a'; p A")
  FileUtils.mkdir_p("#{program.cache}-real", mode: 0o700)
  File.symlink("#{program.cache}-real", program.cache)
  ["", "/", "/.", "//"].each do |slash|
    done, = program.run("-w", cache: program.cache + slash)
    check_equal(["1\n", 1], [done.out, done.err.lines.size]) { done.describe }
  end
  check_equal([], Dir.children("#{program.cache}-real"))
end

claim "a file that others may write to is not used", only: "ashlar" do
  spoilt("its mode is 622: others than its owner may write to it; it is not used") { |_, file, whole| File.binwrite(file, whole); File.chmod(0o622, file) }
end

claim "a file that is a link is not used", only: "ashlar" do
  spoilt("it is a symbolic link; it is not used") do |_, file, whole|
    FileUtils.rm_f(file)
    File.binwrite("#{file}-elsewhere", whole)
    File.symlink("#{file}-elsewhere", file)
  end
end

claim "a file or a folder of another user is not used", only: "ashlar" do
  next unless Process.uid.zero?

  spoilt("it belongs to user 12345, and this is user 0; it is not used") { |_, file, whole| File.binwrite(file, whole); File.chown(12_345, nil, file) }
  spoilt("it belongs to user 12345, and this is user 0; there is no code cache", again: false) { |program, _, _| File.chown(12_345, nil, program.cache) }
end

claim "a file that cannot be read is not used", only: "ashlar" do
  spoilt("it is no file; it is not used", again: false) { |_, file, _| FileUtils.rm_rf(file); FileUtils.mkdir_p("#{file}/x") }
end

SPOILT = {
  "empty" => ["it is empty", ->(_) { "" }],
  "of something else" => ["it is no code cache, or it is damaged", ->(_) { "#!/bin/sh\n" * 100 }],
  "cut" => ["it is damaged", ->(whole) { whole[0...-1] }],
  "longer than it was" => ["it is damaged", ->(whole) { "#{whole}\0" }],
  "damaged in its index" => ["it is damaged", ->(whole) { whole.dup.tap { _1.setbyte(140, _1.getbyte(140) ^ 4) } }],
  "of another Ruby" => ["it is (of another Ruby|damaged)", ->(whole) { whole.dup.tap { _1.setbyte(33, _1.getbyte(33) ^ 4) } }],
  "of another version" => ["its version is 77, and 2 is wanted", ->(whole) { whole.dup.tap { _1.setbyte(8, 77) } }]
}.freeze

SPOILT.each do |what, (line, change)|
  claim "a file that is #{what} is not used, and is written anew", only: "ashlar" do
    spoilt("#{line}; it is not used") { |_, file, whole| File.binwrite(file, change.(whole)) }
  end
end

claim "code that is damaged is compiled, and the rest of the file is used", only: "ashlar" do
  spoilt("the code of .* is damaged; it is compiled") do |_, file, whole|
    at = whole.rindex("YARB")
    File.binwrite(file, whole.dup.tap { _1.setbyte(at + 60, _1.getbyte(at + 60) ^ 1) })
  end
end

claim "whichever byte of a file is wrong, the program gets right code", only: "ashlar" do
  program = cached({ "a.rb" => "def a = 42\n", "b.rb" => "B = [a, 'b']\n" }, "require 'a'; require 'b'; p a, B")
  program.run
  file = program.code_files.fetch(0)
  whole = File.binread(file)
  random = Random.new(7)
  40.times do
    at = random.rand(whole.bytesize)
    File.binwrite(file, whole.dup.tap { _1.setbyte(at, _1.getbyte(at) ^ (1 << random.rand(8))) })
    done, = program.run
    check_equal("42\n[42, \"b\"]\n", done.out) { "byte #{at}: #{done.describe}" }
    check_equal("", done.err)
  end
end

claim "a lock, or an unfinished file, that another process left is no hindrance", only: "ashlar" do
  program = cached({ "a.rb" => "A = 1\n" }, "require 'a'; p A")
  program.run
  lock = Dir.glob("#{program.cache}/*.lock").fetch(0)
  FileUtils.rm(program.code_files)
  File.open(lock) do |held|
    held.flock(File::LOCK_EX)
    check_equal("1\n", program.run.first.out)
    check_equal([], program.code_files)
  end
  program.run
  check_equal(1, program.code_files.size)
  left = File.join(program.cache, ".ashlar-0.part")
  File.write(left, "")
  File.utime(Time.now - 7200, Time.now - 7200, left)
  program.write("a.rb", "A = 2_000\n")
  program.run
  check(!File.exist?(left)) { "what a killed process left is still there" }
end

# ── What ran (where Ruby loads code when it first runs) ──────────────────────

# Whether this Ruby loads code when it first runs: then the second run of a program counts what it loaded.
def lazy?(program)
  2.times { program.run }
  program.run.last[:loaded_later].positive?
end

claim "what ran in earlier processes is loaded before a fork and at Process.warmup, and nothing else", only: "inside" do
  source = (0...50).map { |i| "def ran#{i} = [#{i}].map { |x| x + 1 }\ndef never#{i} = #{i}\n" }.join
  program = cached({ "a.rb" => source }, 'require "a"; 50.times { |i| send("ran#{i}") }')
  next unless lazy?(program)

  ran = program.run.last[:ran_before]
  check(ran >= 101 && ran < 130) { "#{ran} ran: 100 of the methods and their blocks, a.rb and report.rb" }
  ["Process.warmup", "Process.wait(fork { exit! })", "Ashlar::CodeCache.load_what_ran", "nil"].each do |order|
    program.write("main.rb", "require 'a'; #{order}; puts Ashlar::CodeCache.stat.values_at(:loaded_later, :ran_before).inspect")
    later, before = program.run.first.out.scan(/\d+/).map(&:to_i)
    check_equal(ran, before)
    check(order == "nil" ? later < 20 : later == ran) { "after #{order}: #{later} of #{ran}" }
  end
end

claim "what a worker runs that its parent has not is known to later processes, also when the worker ends by exit!", only: "inside" do
  program = cached({ "a.rb" => "def a = 1\ndef b = 2\ndef c = 3\n" }, "require 'a'; fork { b; exit! }; Process.wait")
  next unless lazy?(program)

  before = program.run.last[:ran_before]
  program.write("main.rb", "require 'a'; fork { c; exit! }; Process.wait")
  program.run
  check_equal(before + 1, program.run.last[:ran_before])
end

claim "what ran is remembered when the file is written anew", only: "inside" do
  program = cached({ "a.rb" => "def a = 1\ndef b = 2\n", "z.rb" => "Z = 1\n" }, "require 'a'; require 'z'; a")
  next unless lazy?(program)

  before = program.run.last[:ran_before]
  program.write("z.rb", "Z = 10\n")
  2.times { program.run }
  check(program.run.last[:ran_before] >= before) { "#{program.run.last} after #{before}" }
end

claim "a damaged note of what ran is ignored with a line under -w", only: "inside" do
  program = cached({ "a.rb" => "def a = 1\n" }, "require 'a'; a; Process.warmup; puts a")
  program.run("-w")
  next unless lazy?(program)

  program.run("-w")
  note = Dir.glob("#{program.cache}/*.ran").fetch(0)
  whole = File.binread(note)
  File.binwrite(note, whole.dup.tap { _1.setbyte(50, _1.getbyte(50) ^ 1) })
  done, = program.run("-w")
  check_equal("1\n", done.out)
  check_match(/\Aashlar: .*\.ran: it is damaged; it is not used\n\z/, done.err)
end
