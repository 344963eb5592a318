# A Ruby that loads code when it first runs (docs/design/lazy-code.md): what is loaded and when, and that
# nobody can tell otherwise. Everything here is loaded from its binary form.

LAZY = <<~'RUBY'
  require "objspace"
  ISeq = RubyVM::InstructionSequence
  def binary(source, path = "/made/file.rb") = ISeq.compile(source, path, path).to_binary
  def from_binary(source, path = "/made/file.rb") = ISeq.load_from_binary(binary(source, path))
  # Code that waits is its cell alone.
  def waits?(code) = ObjectSpace.memsize_of(code) < 200
  def waiting(code)
    return 1 if waits?(code)
    count = 0
    code.each_child { |child| count += waiting(child) }
    count
  end
  # Methods and blocks that have the string "damaged" cannot be loaded: the string's type is one that the binary form never has. A byte with
  # the type in five bits, the encoding and the length come before the string's bytes.
  def damaged(source)
    text = binary(source)
    place = text.index("damaged") - 3
    text.setbyte(place, text.getbyte(place) & 0xe0 | 1)
    ISeq.load_from_binary(text)
  end
RUBY

# Loading a regular expression as this one warns, so a program is asked in the middle of loading.
IN_THE_MIDDLE = LAZY + <<~'RUBY'
  MIDDLE = <<~'CODE'
    def before = :before
    def middle(list = [1, 2], *rest, key: "key", **, &block)
      found = /[aa]/.match?("a")
      list.map { |n| [n, key, found] } + rest
    rescue ArgumentError
      "rescued"
    end
    class Holder
      def middle = [/[bb]/.match?("b"), -> { { "a" => 1, 2 => :two } }.call]
    end
  CODE
  EXPECTED = [[[1, "key", true], [2, "key", true]], [true, { "a" => 1, 2 => :two }]]
  def run_middle = [middle, Holder.new.middle]
  def load_middle = from_binary(MIDDLE).tap(&:eval)
  $in_the_middle = nil
  def in_the_middle(&block) = $in_the_middle = block
  def Warning.warn(text, **) = $in_the_middle&.call(text)
RUBY

# Code of many kinds, and what it comes to.
KINDS = <<~'CODE'
  module Loud
    refine(String) { def shout = upcase + "!" }
  end
  module Kinds
    using Loud
    class Base
      NAME = "base"
      attr_accessor :value
      def initialize(value, other = [value]) = (@value, @other, @third = value, other, nil)
      def hello(greeting = "hello #{NAME}", *rest, mark: "mark #{rest.size}", **more, &block)
        text = "#{greeting} #{mark} #{more.size}"
        block ? block.call(text) : text
      end
      def forwards(...) = hello(...)
      def anonymous(*, **, &) = hello(*, **, &)
      def risky
        yield
      rescue ZeroDivisionError, KeyError => error
        "rescued #{error.class}"
      else
        "fine"
      ensure
        @value = [@value].flatten.last
      end
      def literals = [10**30, 3.25r, 2i, 1..3, "a".."b", :sym, "frozen".freeze, /a(?<x>b)#{1 + 1}/o, { a: 1, "b" => [2, 3] }, __method__]
      def matched(x)
        case x
        in { a: Integer => n, b: [*, String => s, *] } then [n, s]
        in [1, *rest] then rest
        in nil then :nothing
        end
      end
      def chosen(x)
        case x
        when 1 then :one
        when "two", :two then :two
        when 2.5 then :half
        end
      end
      def looped = (1..10).each_with_index.filter_map { |n, i| next if n.odd?; break [n] if i > 8; n * i }
      def caught = catch(:out) { [1, 2].each { |n| throw :out, n if n == 2 } }
      def left = [1, 2, 3].each { |n| return n if n > 1 }
      def numbered = [[1, 2], [3, 4]].map { _1 + _2 } + [5].map { it + 1 }
      def enumerated = Enumerator.new { |y| 3.times { |i| y << i * i } }.to_a
      def keywords(a:, b: a + 1) = [a, b]
      def shouted = "quiet".shout
      def optional(a, b = a, (c, d), e) = [a, b, c, d, e]
      define_method(:captured) { |add = 1, *more, k: 2| [add, more, k, value] }
      def self.made = (@made ||= "made #{NAME}")
      class << self
        def single = "#{name} single"
        attr_reader :made_by
      end
      alias other_hello hello
      private def hidden = :hidden
      protected def guarded = :guarded
      def reveal(other) = [other.guarded, hidden]
      def never = [1].each { |n| n }
    end
    module Before
      def hello(...) = "before #{super}"
    end
    class Kid < Base
      prepend Before
      @@count = 0
      def initialize(...) = (super; @@count += 1)
      def count = @@count
      def hello(*) = super.sub("hello", "kid")
      def missing = nosuch(1) { 2 }
      def method_missing(name, *args) = [name, args, yield]
      def respond_to_missing?(*) = true
    end
    BLOCKS = [proc { |a, b| [a, b] }, ->(a, b = 2) { [a, b] }, lambda { |*a| a.sum }, :upcase.to_proc]

    def self.all
      kid = Kid.new([1])
      [kid.hello, kid.hello("hello x", 1, mark: 2, other: 3) { |t| t.swapcase }, kid.forwards("f", 1, mark: 3), kid.anonymous("g") { |t| t.upcase },
       kid.risky { 1 / 0 }, kid.risky { 1 }, kid.value, kid.literals.map { |l| l.inspect }, kid.matched({ a: 1, b: [2, "s", 3] }), kid.matched([1, 2]),
       kid.matched(nil), kid.chosen(1), kid.chosen("two"), kid.chosen(2.5), kid.looped, kid.caught, kid.left, kid.numbered, kid.enumerated,
       kid.keywords(a: 1), kid.shouted, kid.optional(1, [2, 3], 4), kid.captured(3, 4, k: 5), Kid.made, Kid.single, kid.other_hello, kid.reveal(Kid.new(2)),
       kid.count, kid.missing, BLOCKS[0].call([1, 2]), BLOCKS[1].call(1), BLOCKS[2].call(1, 2), BLOCKS[3].call("x"),
       (kid.optional(1) rescue $!.message), (kid.keywords(1) rescue $!.message), (kid.keywords(a: 1, c: 2) rescue $!.message),
       (BLOCKS[1].call rescue $!.message), (raise "at #{__LINE__}" rescue [$!.message, $!.backtrace.first]), eval("kid.value + binding.local_variables.size")]
    end
  end
CODE

def lazy_claim(text, **rest, &block) = claim(text, needs: "lazy code", **rest, &block)

# Runs a program that has the code of many kinds in CODE.
def with_kinds(source) = LAZY + "KINDS = #{KINDS.dump}\n" + source

SAME_ANSWERS = <<~'RUBY'
  made = ISeq.compile(KINDS, "/made/file.rb", "/made/file.rb")
  made.eval
  expected = Kinds.all
  ROUNDS.times do
    Object.send(:remove_const, :Kinds)
    code = ISeq.load_from_binary(made.to_binary)
    code.eval
    abort "nothing waits" if waiting(code).zero?
    all = Kinds.all
    abort "#{all}\nnot\n#{expected}" unless all == expected
    abort "another answer later" unless Kinds.all.drop(28) == expected.drop(28)
  end
  puts "ok"
RUBY

lazy_claim "a method waits for its first call, a block for its first run, and what never runs waits on" do
  ruby_ok LAZY + <<~'RUBY'
    code = from_binary(<<~'CODE')
      def called = [1, 2].map { |n| n + 1 }
      def not_called = [1, 2].map { |n| n + 1 }
      def half_run(list) = list.map { |n| n + 1 }
      class Made
        def called = begin 1 / 0; rescue ZeroDivisionError; :rescued; ensure; 1; end
        def not_called = :never
      end
    CODE
    abort "#{waiting(code)} wait at first" unless waiting(code) == 5 # the class's body is loaded
    code.eval
    abort "#{waiting(code)} wait when it has run" unless waiting(code) == 5
    half_run([])
    abort "#{waiting(code)} wait when a method ran" unless waiting(code) == 5 # now its block waits
    called
    Made.new.called
    abort "#{waiting(code)} wait when three ran" unless waiting(code) == 3
    puts "ok"
  RUBY
end

lazy_claim "code of many kinds gives the answers that it gives when it is compiled" do
  ruby_ok with_kinds("ROUNDS = 3\n" + SAME_ANSWERS)
end

{ "with many collections, all verified" => stress("collect-every:30", "verify", "poison"),
  "with collections in small slices" => stress("collect-every:200", "slice-cells:200", "verify", "poison"),
  "when all that may move moves" => stress("collect-every:200", "move-everything", "verify", "poison") }.each do |how, env|
  lazy_claim "code that waits gives the same answers #{how}" do
    ruby_ok with_kinds("ROUNDS = 1\n" + SAME_ANSWERS), "--disable-gems", env:, limit: 300
  end
end

lazy_claim "code that waits gives the same answers with YJIT, which may look at it first" do
  ruby_ok with_kinds("ROUNDS = 5\n" + SAME_ANSWERS), "--yjit", "--yjit-call-threshold=1"
end

lazy_claim "code that waits gives the same answers with YJIT and collections" do
  ruby_ok with_kinds("ROUNDS = 1\n" + SAME_ANSWERS), "--yjit", "--yjit-call-threshold=1", "--disable-gems", env: stress("collect-every:100", "verify", "poison"), limit: 300
end

# Methods that YJIT loads when it compiles the first call of their aliases. Their literals are so many that a load is many allocations.
ALIASES = LAZY + <<~'RUBY'
  COUNT = 12
  literals = ->(n) { (0...100).map { |i| "[#{n}, nil, #{i}].size" }.join("\n") }
  source = ->(n) { "module M#{n}\ndef m#{n}(runs)\nif runs\n#{literals[n]}\nend\n1\nend\nalias n#{n} m#{n}\nend\nclass C#{n}; include M#{n}; end\n" }
  from_binary(COUNT.times.map(&source).join).eval
  OBJECTS = COUNT.times.map { |n| Object.const_get("C#{n}").new }
  COUNT.times { |n| eval("def call#{n}(o) = o.n#{n}(nil)") }
  def call_all = COUNT.times.map { |n| [send("call#{n}", OBJECTS[n]), GC.count] }
RUBY

lazy_claim "a method whose alias YJIT compiles a call of is loaded without a collection" do
  ruby_ok ALIASES + <<~'RUBY', "--yjit", "--yjit-call-threshold=1", "--disable-gems"
    GC.config(stress: "collect-every:20")
    before = GC.count
    call_all.each do |answer, count|
      abort "#{count - before} collections" unless answer == 1 && count - before < 3
      before = count
    end
    GC.start
    abort "none later" unless GC.count > before
    puts "ok"
  RUBY
end

lazy_claim "the collector is on after a load for YJIT if it was on before, and off if it was off, also when the load raised" do
  ruby_ok LAZY + <<~'RUBY', "--yjit", "--yjit-call-threshold=1"
    from_binary("def one = 1\ndef two = 2").eval
    damaged("def bad = 'damaged'\ndef worse = 'damaged'").eval
    def call_one = one
    def call_two = two
    def call_bad = bad
    def call_worse = worse
    raised = ->(&call) { (call.call rescue $!.class) == ArgumentError }
    abort "off" unless call_one == 1 && raised.() { call_bad } && GC.disable == false
    abort "on" unless call_two == 2 && raised.() { call_worse } && GC.enable == true
    puts "ok"
  RUBY
end

lazy_claim "a call that YJIT compiled by an alias, loading the method while all that may move moves, finds the alias redefined" do
  ruby_ok ALIASES + <<~'RUBY', "--yjit", "--yjit-call-threshold=1", "--disable-gems", limit: 180
    GC.config(stress: "collect-every:20,move-everything,verify,poison")
    abort "at first" unless call_all.map(&:first) == [1] * COUNT
    GC.config(stress: "none")
    COUNT.times { |n| Object.const_get("M#{n}").module_eval("def n#{n}(_) = 2") }
    abort "#{call_all}" unless call_all.map(&:first) == [2] * COUNT
    puts "ok"
  RUBY
end

lazy_claim "code that waits gives the same answers with ZJIT, which may look at it first", ruby: "4.0" do
  ruby_ok with_kinds("ROUNDS = 5\n" + SAME_ANSWERS), "--zjit", "--zjit-call-threshold=2" if Subject.has?("ZJIT")
end

# An object whose method `f` has been called once less often than ZJIT waits for (`WAITING`). Its next call compiles it and `g`, and that looks at
# `ext_method`, which waits.
WAITING = %w[--zjit --zjit-call-threshold=30]
ALMOST_COMPILED = LAZY + <<~'RUBY'
  from_binary("class Integer; def ext_method = self + 1; end").eval
  class K
    def g(x) = x ? 1.ext_method : 0
    def f(x) = g(x)
    def shallow = f(nil)
    def deep
      a=1;b=2;c=3;d=4;e=5;h=6;i=7;j=8;k=9;l=10;m=11;n0=12;n1=13;n=14;o=15;p=16;q=17;r=18;s=19;t=20
      f(nil)
      [a,b,c,d,e,h,i,j,k,l,m,n0,n1,n,o,p,q,r,s,t]
    end
  end
  object = K.new
  i = 0
  while i < 29
    object.shallow
    i += 1
  end
RUBY

lazy_claim "code that ZJIT looks at when it compiles what it calls leaves the caller's variables alone", ruby: "4.0" do
  ruby_ok ALMOST_COMPILED + <<~'RUBY', *WAITING if Subject.has?("ZJIT")
    found = object.deep
    abort found.inspect unless found == [*1..20]
    puts "ok"
  RUBY
end

lazy_claim "code that ZJIT looks at in the first frame of a thread does no harm", ruby: "4.0" do
  ruby_ok ALMOST_COMPILED + <<~'RUBY', *WAITING if Subject.has?("ZJIT")
    abort "thread" unless Thread.new { object.f(nil) }.value == 0
    puts "ok"
  RUBY
end

lazy_claim "code that waits gives the same answers with ZJIT and collections", ruby: "4.0" do
  ruby_ok with_kinds("ROUNDS = 1\n" + SAME_ANSWERS), "--zjit", "--zjit-call-threshold=2", "--disable-gems", env: stress("collect-every:100", "verify", "poison"), limit: 300 if Subject.has?("ZJIT")
end

lazy_claim "what is compiled by RJIT is loaded at once", ruby: "3.4" do
  ruby_ok with_kinds("def waiting(_) = 1\nROUNDS = 2\n" + SAME_ANSWERS), "--rjit", "--rjit-call-threshold=2"
end

lazy_claim "compiled code calls, yields to and defines methods by what waits" do
  program = LAZY + <<~'RUBY'
    from_binary(<<~'CODE').eval
      class Callee
        def plain(a) = a + 1
        def keys(a, b: 2) = [a, b]
        def rest(*a) = a
        def yields = yield(1, 2)
        define_method(:from_block) { |a, b = 3| [a, b] }
      end
      class Kid < Callee
        def plain(a) = super + 1
        def rest(*) = super
      end
      def block_of(n) = n.zero? ? proc { |a| [:zero, a] } : proc { |a, b| [n, a, b] }
    CODE
    def call_all(o, n)
      [o.plain(1), o.keys(1, b: 3), o.keys(4), o.rest(1, 2), o.yields { |a, b| [b, a] }, o.yields(&block_of(n)), o.from_block(1), o.from_block(1, 2)]
    end
    expected = ->(plain, block) { [plain, [1, 3], [4, 2], [1, 2], [2, 1], block, [1, 3], [1, 2]] }
    3.times do
      abort "Callee" unless call_all(Callee.new, 0) == expected.(2, [:zero, 1])
      abort "Kid" unless call_all(Kid.new, 5) == expected.(3, [5, 1, 2])
    end
    puts "ok"
  RUBY
  ruby_ok program, "--yjit", "--yjit-call-threshold=1"
  ruby_ok program, "--zjit", "--zjit-call-threshold=2" if Subject.has?("ZJIT")
end

# How a program is run: by the interpreter, and by each compiler that this Ruby has, which compiles a method at its third call.
def each_compiler
  [nil, "yjit", ("zjit" if Subject.has?("ZJIT"))].uniq.each { |compiler| yield(*("--#{compiler}" if compiler), *("--#{compiler}-call-threshold=3" if compiler)) }
end

lazy_claim "a call that ran before it was compiled is compiled with the code that waits there now" do
  each_compiler do |*options|
    ruby_ok LAZY + <<~'RUBY', *options
      class Callee
        def plain(a) = 0
        def keys(a, b:) = 0
        def left(a, *rest) = 0
        define_method(:from_block) { |a| 0 }
      end
      def call_all(o) = [o.plain(1), o.keys(1, b: 3), o.left(1), o.from_block(1)]
      callee = Callee.new
      2.times { abort "at first" unless call_all(callee) == [0, 0, 0, 0] }
      code = from_binary(<<~'CODE')
        class Callee
          def plain(a) = a + 1
          def keys(a, b:) = [a, b]
          def left(a, *rest) = [a, rest]
          define_method(:from_block) { |a| a + 2 }
        end
      CODE
      code.eval
      abort "#{waiting(code)} wait" unless waiting(code) == 4
      5.times { abort "#{call_all(callee)}" unless call_all(callee) == [2, [1, 3], [1, []], 3] }
      puts "ok"
    RUBY
  end
end

lazy_claim "code that cannot be loaded raises when it is called or yielded to, at each call" do
  each_compiler do |*options|
    ruby_ok LAZY + <<~'RUBY', *options
      class Callee
        def plain = 0
        define_method(:from_block) { 0 }
      end
      def call_plain(o) = o.plain
      def call_from_block(o) = o.from_block
      def call_block = yield
      callee = Callee.new
      2.times { abort "at first" unless [call_plain(callee), call_from_block(callee), call_block { 0 }] == [0, 0, 0] }
      code = damaged(<<~'CODE')
        class Callee
          def plain = "damaged"
          define_method(:from_block) { "damaged" }
        end
        def block = proc { "damaged" }
      CODE
      code.eval
      5.times do
        raised = [-> { call_plain(callee) }, -> { call_from_block(callee) }, -> { call_block(&block) }].map { |call| call.call rescue $!.class }
        abort "#{raised}" unless raised == [ArgumentError] * 3
      end
      abort "loaded" unless waiting(code) == 3
      puts "ok"
    RUBY
  end
end

lazy_claim "parameters, arity, places, hashes and equality are those of the loaded code" do
  ruby_ok LAZY + <<~'RUBY'
    SOURCE = <<~'CODE'
      def method_one(a, b = 1, *c, d, e:, f: 2, **g, &h) = [a, b, c, d, e, f, g, h]
      def method_two(*) = 1
      def splat(*args) = target(*args)
      def target(*args, **keys) = [args, keys]
      BLOCK = proc { |a, (b, c), d = 1| [a, b, c, d] }
      LAMBDA = ->(a, b: 1) { [a, b] }
      OTHER = ->(*args) { target(*args) }
      define_method(:from_block, &LAMBDA)
    CODE
    def facts
      methods = %i[method_one method_two splat target].map { method(_1).unbind }
      methods.map { [_1.parameters, _1.arity, _1.source_location, _1.inspect] } +
        [BLOCK, LAMBDA, OTHER].map { [_1.parameters, _1.parameters(lambda: true), _1.arity, _1.source_location, _1.lambda?, _1.inspect[/file.*/]] } +
        [method(:from_block).parameters, method(:from_block).source_location, LAMBDA.curry.arity]
    end
    forget = -> { %i[BLOCK LAMBDA OTHER].each { Object.send(:remove_const, _1) } }
    ISeq.compile(SOURCE, "/made/file.rb", "/made/file.rb").eval
    expected = facts
    forget.call
    from_binary(SOURCE).eval
    abort "#{facts}\nnot\n#{expected}" unless facts == expected
    forget.call
    from_binary(SOURCE).eval
    hashes = [method(:splat).unbind.hash, method(:splat).hash, BLOCK.hash]
    table = { method(:splat) => 1, BLOCK => 2 }
    splat(1)
    BLOCK.call
    abort "another hash" unless hashes == [method(:splat).unbind.hash, method(:splat).hash, BLOCK.hash]
    abort "lost keys" unless table[method(:splat)] == 1 && table[BLOCK] == 2
    forget.call
    from_binary(SOURCE).eval
    Object.send(:ruby2_keywords, :splat)
    abort "no keywords" unless splat(1, a: 2) == [[1], { a: 2 }]
    abort "no keywords of a block" unless OTHER.ruby2_keywords.call(1, a: 2) == [[1], { a: 2 }]
    puts "ok"
  RUBY
end

lazy_claim "an object is as wide as its class's initialize says" do
  ruby_ok LAZY + <<~'RUBY'
    source = ->(name) { "class #{name}\n  def initialize = (#{(1..9).map { "@v#{_1}" }.join(", ")} = *1..9)\nend\n" }
    eval(source["Compiled"])
    from_binary(source["Loaded"]).eval
    widths = [Compiled, Loaded].map { ObjectSpace.memsize_of(_1.allocate) }
    abort "#{widths}" unless widths.uniq.size == 1 && widths[0] > 40
    puts "ok"
  RUBY
end

lazy_claim "instruction sequences are found, shown, walked and written whole" do
  ruby_ok with_kinds(<<~'RUBY')
    made = ISeq.compile(KINDS, "/made/file.rb", "/made/file.rb")
    walk = ->(code) { all = []; code.each_child { all << [_1.label, _1.first_lineno, *walk[_1]] }; all }
    plain = ->(text) { text.gsub(/0x\h+/, "") }
    abort "each_child" unless walk[ISeq.load_from_binary(made.to_binary)] == walk[made]
    abort "disasm" unless plain[ISeq.load_from_binary(made.to_binary).disasm] == plain[made.disasm]
    abort "to_a" unless ISeq.load_from_binary(made.to_binary).to_a.inspect == made.to_a.inspect
    abort "to_binary" unless (again = ISeq.load_from_binary(made.to_binary).to_binary) == made.to_binary
    ISeq.load_from_binary(again).eval
    code = ISeq.of(Kinds::Kid.instance_method(:missing))
    abort "of" unless code.label == "missing" && code.disasm.include?("nosuch") && ISeq.of(Kinds::BLOCKS[1]).disasm.include?("newarray")
    abort "trace_points" unless ISeq.of(Kinds::Kid.instance_method(:count)).trace_points.any?
    abort "inspect" unless ISeq.of(Kinds::Base.instance_method(:never)).inspect.include?("never@/made/file.rb")
    abort "eval" unless (ISeq.of(Kinds::Base.instance_method(:never)).eval rescue $!.class) == TypeError
    puts "ok"
  RUBY
end

lazy_claim "events of a TracePoint are those of compiled code, for all code and for one method" do
  program = LAZY + <<~'RUBY'
    SOURCE = <<~'CODE'
      def one(a)
        [a].each do |n|
          two(n)
        end
      end
      def two(n) = n.then { |m| m + 1 }
      def three
        raise "x"
      rescue => e
        e.message
      end
    CODE
    EVENTS = %i[call return b_call b_return line rescue raise]
    def note(tp) = (@events << [tp.event, tp.lineno, tp.method_id] if tp.path == "/made/file.rb")
    def record(target = nil, early: true)
      @events = []
      trace = TracePoint.new(*EVENTS - (target ? [:raise] : [])) { |tp| note(tp) }
      yield if early
      target ? trace.enable(target: method(target)) : trace.enable
      yield unless early
      3.times { one(1); three }
      trace.disable
      one(1)
      @events
    end
    compiled = -> { ISeq.compile(SOURCE, "/made/file.rb", "/made/file.rb").eval }
    loaded = -> { from_binary(SOURCE).eval }
    [[nil, { early: true }], [nil, { early: false }], [:one, { early: true }]].each do |target, how|
      expected = record(target, **how, &compiled)
      found = record(target, **how, &loaded)
      abort "#{target} #{how}:\n#{found}\nnot\n#{expected}" if found != expected || found.size < 10
    end
    loaded.call
    both = TracePoint.new(:call) { }
    both.enable { loaded.call; two(1) }
    line = []
    ISeq.compile(SOURCE, "/made/file.rb", "/made/file.rb")
    loaded.call
    trace = TracePoint.new(:line) { line << _1.lineno }
    trace.enable(target: method(:one), target_line: 3)
    one(1)
    trace.disable
    abort "#{line}" unless line == [3]
    puts "ok"
  RUBY
  ruby_ok program
  ruby_ok program, "--yjit", "--yjit-call-threshold=1"
  ruby_ok program, "--zjit", "--zjit-call-threshold=2" if Subject.has?("ZJIT")
end

lazy_claim "a TracePoint for a method that cannot be loaded whole is not set" do
  ruby_ok LAZY + <<~'RUBY'
    damaged(<<~'CODE').eval
      def outer(list) = list.each { |n| n.then { "damaged" } }
      define_method(:from_block) { |list| list.each { |n| n.then { "damaged" } } }
    CODE
    seen = 0
    trace = TracePoint.new(:call, :b_call) { seen += 1 }
    [method(:outer), method(:from_block)].each do |target|
      2.times { abort "set" unless (trace.enable(target:) rescue $!.class) == ArgumentError }
      abort "enabled" if trace.enabled?
    end
    run_both = -> { [outer([]), from_block([])] }
    run_both.call
    abort "seen" unless seen.zero?
    def other(list) = list.each { |n| n }
    trace.enable(target: method(:other)) { [other([1, 2]), run_both.call] }
    abort "#{seen} seen" unless seen == 3
    puts "ok"
  RUBY
end

lazy_claim "the coverage of methods and its end go with code that waits" do
  ruby_ok LAZY + <<~'RUBY'
    require "coverage"
    code = from_binary("def one = 1\ndef two = 2\nclass Three; def three = 3; end")
    Coverage.setup(methods: true, lines: true)
    code.eval
    Coverage.resume
    File.write("covered.rb", "def covered = 1\ncovered\n")
    load "./covered.rb"
    one
    result = Coverage.result
    abort "#{result}" unless result[File.expand_path("covered.rb")][:methods].values == [1]
    abort unless two == 2 && Three.new.three == 3
    puts "ok"
  RUBY
end

lazy_claim "messages, backtraces and warnings are those of compiled code" do
  finished = ruby LAZY + <<~'RUBY', "-w"
    SOURCE = <<~'CODE'
      def fails(a)
        [a].each { |n| n.no_such_method }
      end
      def takes(a, b:) = 1
      def again = 1
    CODE
    def facts
      [(fails(1) rescue [$!.message, $!.backtrace.first(3), $!.backtrace_locations.first(3).map { [_1.lineno, _1.label, _1.base_label, _1.absolute_path] }]),
       (takes rescue [$!.message, $!.backtrace.first]), (takes(1) rescue [$!.message, $!.backtrace.first])]
    end
    ISeq.compile(SOURCE, "/made/file.rb", "/made/file.rb").eval
    expected = facts
    self.class.send(:remove_method, :fails, :takes, :again)
    from_binary(SOURCE).eval
    abort "#{facts}\nnot\n#{expected}" unless facts == expected
    eval("def again = 2", nil, "other.rb", 7)
    puts "ok"
  RUBY
  check_equal("ok\n", finished.out) { finished.describe }
  check_match(/other\.rb:7: warning: method redefined; discarding old again\n.*file\.rb:5: warning: previous definition of again/, finished.err)
end

lazy_claim "an exception in the middle of loading leaves the code waiting" do
  ruby_ok IN_THE_MIDDLE + <<~'RUBY', "-w"
    require "timeout"
    3.times do
      code = load_middle
      [RuntimeError, NoMemoryError, SystemStackError, Interrupt, SystemExit].each do |kind|
        in_the_middle { raise kind, "in the middle" }
        depth = caller(0).size
        found = begin middle; rescue Exception => e; e; end
        abort "#{found.inspect}" unless found.class == kind
        abort "a frame is left" unless caller(0).size == depth
        thrown = catch(:out) { in_the_middle { throw :out, :thrown }; Holder.new.middle }
        abort "#{thrown}" unless thrown == :thrown
      end
      abort "loaded" unless waiting(code) == 3
      in_the_middle { }
      abort "#{run_middle}" unless run_middle == EXPECTED
    end
    puts "ok"
  RUBY
end

lazy_claim "an exception in the middle of loading for YJIT comes when the call is made" do
  ruby_ok IN_THE_MIDDLE + <<~'RUBY', "-w", "--yjit", "--yjit-call-threshold=1"
    load_middle
    in_the_middle { raise "in the middle" }
    def call_it = middle
    def call_other(holder) = holder.middle
    4.times do
      abort "no exception" unless (call_it rescue $!.message) == "in the middle"
      abort "no exception" unless (call_other(Holder.new) rescue $!.message) == "in the middle"
    end
    in_the_middle { }
    4.times { abort "#{call_it}" unless [call_it, call_other(Holder.new)] == EXPECTED }
    puts "ok"
  RUBY
end

lazy_claim "a collection, a compaction and a walk over the heap in the middle of loading are nothing" do
  [{}, stress("collect-every:30", "verify", "poison")].each do |env|
    ruby_ok IN_THE_MIDDLE + <<~'RUBY', "-w", "--disable-gems", env:, limit: 300
      2.times do
        load_middle
        in_the_middle do
          GC.start(full_mark: false)
          GC.start
          GC.compact
          ObjectSpace.each_object { }
          ObjectSpace.memsize_of_all
          ObjectSpace.count_imemo_objects
          TracePoint.new(:line, :call) { }.enable { before }
          ObjectSpace.dump_all(output: File.open(File::NULL, "w"))
          load_middle if rand < 0
        end
        abort "#{run_middle}" unless run_middle == EXPECTED
        GC.start
        abort "later" unless run_middle == EXPECTED
      end
      puts "ok"
    RUBY
  end
end

lazy_claim "a fork, a thread and a second call in the middle of loading find the code waiting" do
  ruby_ok IN_THE_MIDDLE + <<~'RUBY', "-w"
    load_middle
    entered = 0
    in_the_middle do
      entered += 1
      next if entered > 3
      abort "called again" unless run_middle == EXPECTED
    end
    abort "#{run_middle}" unless run_middle == EXPECTED && entered >= 2

    load_middle
    children = []
    in_the_middle do
      in_the_middle { }
      child = fork { exit!(run_middle == EXPECTED ? 0 : 1) }
      children << Process.wait2(child).last.success?
      thread = Thread.new { run_middle }
      abort "a thread in the middle" unless thread.value == EXPECTED
    end
    abort "#{run_middle}" unless run_middle == EXPECTED
    abort "a child in the middle" unless children == [true]

    load_middle
    in_the_middle { in_the_middle { }; Thread.new { sleep 0.01 }.join; 20.times { Thread.pass } }
    results = Array.new(4) { Thread.new { run_middle } }.map(&:value)
    abort "#{results}" unless results.all?(EXPECTED)
    load_middle
    in_the_middle { in_the_middle { }; sleep }
    loading = Thread.new { run_middle }
    Thread.pass until loading.stop?
    child = fork { in_the_middle { }; exit!(run_middle == EXPECTED ? 0 : 1) }
    abort "a child of a process that loads" unless Process.wait2(child).last.success?
    loading.kill.join
    in_the_middle { }
    abort "after a thread that was killed" unless run_middle == EXPECTED
    puts "ok"
  RUBY
end

# An extension that finds code as debuggers do: ISeq.met has what stands for each cell with code, whether that is loaded, waits or neither.
WALKER = <<~'C'
  #include <ruby.h>

  VALUE rb_iseqw_new(VALUE code);
  void rb_objspace_each_objects(int (*visit)(void *, void *, size_t, void *), void *data);

  /* The kinds of internal objects are four bits of the flags. */
  static int is_code(VALUE cell) {
      VALUE flags = RBASIC(cell)->flags;
      return (flags & RUBY_T_MASK) == T_IMEMO && (flags >> FL_USHIFT & 15) == 7;
  }

  static int note(void *start, void *end, size_t stride, void *codes) {
      for (VALUE cell = (VALUE)start; cell != (VALUE)end; cell += stride) {
          if (is_code(cell)) rb_ary_push((VALUE)codes, rb_iseqw_new(cell));
      }
      return 0;
  }

  static VALUE met(VALUE self) {
      VALUE codes = rb_ary_new();
      rb_objspace_each_objects(note, (void *)codes);
      RB_GC_GUARD(codes);
      return codes;
  }

  void Init_walker(void) {
      rb_define_singleton_method(rb_path2class("RubyVM::InstructionSequence"), "met", met, 0);
  }
C

def compile_walker = compiled("walker.so", WALKER, "-shared", "-fPIC", *Subject.config.values_at("rubyhdrdir", "rubyarchhdrdir").map { "-I#{_1}" })

# `middle` is the method of MIDDLE, in its second line. MIDDLE is compiled in another process, so that what is met was loaded.
MEETING = IN_THE_MIDDLE + <<~'RUBY'
  require "./walker"
  Process.wait(fork { File.binwrite("middle", binary(MIDDLE)) })
  def load_middle = ISeq.load_from_binary(File.binread("middle")).tap(&:eval)
  def middles(codes) = codes.select { |code| code.label == "middle" && code.path == "/made/file.rb" && code.first_lineno == 2 }
  def is_middle?(code)
    calls = 0
    TracePoint.new(:call) { calls += 1 }.enable(target: code) { middle }
    calls == 1
  end
RUBY

lazy_claim "code that a walk over all code meets in the middle of its load is the code that runs later" do
  compile_walker
  ruby_ok MEETING + <<~'RUBY', "-w"
    load_middle
    met = []
    in_the_middle { met.concat(ISeq.met) }
    middle
    in_the_middle { }
    met = middles(met)
    abort "#{met.size} met" unless met.size == 2 # the cell that waits, and the one that is loaded into
    abort "another code" unless met.all? { is_middle?(_1) }
    abort "#{middles(ISeq.met).size} left" unless middles(ISeq.met).size == 1
    puts "ok"
  RUBY
end

lazy_claim "code that was loaded twice at once is there once" do
  compile_walker
  ruby_ok MEETING + <<~'RUBY', "-w"
    GC.disable
    load_middle
    met = []
    in_the_middle do
      in_the_middle { }
      met.concat(ISeq.met)
      middle # is loaded before the first load is over
    end
    middle
    abort "#{middles(ISeq.met).size} are there" unless middles(ISeq.met).size == 1
    abort "another code" unless middles(met).size == 2 && middles(met).all? { is_middle?(_1) }
    GC.enable
    GC.start
    abort "lost" unless run_middle == EXPECTED
    puts "ok"
  RUBY
end

lazy_claim "code for whose load there was no memory is loaded later, and a walk over all code meets no other" do
  compile_walker
  ruby_ok LAZY + <<~'RUBY', limit: 180
    require "./walker"
    NAMES = (0...20).map { :"late_#{_1}" }
    from_binary(NAMES.map { |name| "def #{name} = [1, 2].map { |n| n + 1 }" }.join("\n")).eval
    lists = Array.new(200_000) { [] }
    # The last places of lists whose buffers together take what is there, of all sizes.
    places = [*Array.new(50) { |i| (25_000 * 0.9**i).to_i }, *100.downto(5)]
    data_bytes = File.read("/proc/self/status")[/VmData:\s+(\d+)/, 1].to_i * 1024
    refused = at = 0
    GC.disable
    Process.setrlimit(:DATA, data_bytes, Process::RLIM_INFINITY)
    places.each do |place|
      while true
        lists[at][place] = nil
        at += 1
      end
    rescue NoMemoryError
    end
    NAMES.each do |name|
      send(name)
    rescue NoMemoryError
      refused += 1
    end
    lists.each { |list| list.replace([]) }
    Process.setrlimit(:DATA, Process::RLIM_INFINITY)
    has_body = lambda do |code|
      code.label
    rescue TypeError
      false
    end
    abort "no load was refused" if refused.zero?
    abort "each load came so far that it had a body" if ISeq.met.all?(&has_body)
    run_all = -> { NAMES.all? { |name| send(name) == [2, 3] } }
    child = fork { exit!(run_all.call ? 0 : 1) }
    abort "in a child" unless Process.wait2(child).last.success?
    abort "later" unless run_all.call
    puts "ok"
  RUBY
end

lazy_claim "threads and Ractors that call the same methods first get the same answers" do
  [{}, stress("collect-every:3000", "verify", "poison")].each do |env|
    ruby_ok LAZY + <<~'RUBY', "-W:no-experimental", "--disable-gems", env:, limit: 300
      def source(name) = "class #{name}\n" + (0...150).map { |i| "def m#{i}(a, *b, k: #{i}) = [a, \"s#{i}\", :y#{i}, #{i}.0, k].each_with_index.map { |v, n| [v, n, { #{i} => \"x\" }, case a when 1 then :a when \"q\" then :b end] }\n" }.join + "end"
      def run_all(klass) = (0...150).sum { |i| klass.new.public_send("m#{i}", 1).hash % 1000 }
      eval(source("Compiled"))
      expected = run_all(Compiled)
      3.times do |round|
        from_binary(source("ForThreads#{round}")).eval
        klass = Object.const_get("ForThreads#{round}")
        results = Array.new(6) { Thread.new { run_all(klass) } }.map(&:value)
        abort "threads: #{results}" unless results.uniq == [expected]
        from_binary(source("ForRactors#{round}")).eval
        klass = Object.const_get("ForRactors#{round}")
        results = Array.new(4) { Ractor.new(klass) { |k| (0...150).sum { |i| k.new.public_send("m#{i}", 1).hash % 1000 } } }.map(&:value)
        abort "Ractors: #{results}" unless results.uniq == [expected]
      end
      puts "ok"
    RUBY
  end
end

lazy_claim "literals of a method that several Ractors load at once live on, whoever's copy is used" do
  ruby_ok LAZY + <<~'RUBY', "-W:no-experimental", "--disable-gems", env: stress("collect-every:60", "verify", "poison"), limit: 300
    literals = (0...150).map { |i| "s += [#{i}, #{i + 1}, #{i + 2}].sum; s += (#{i}..#{i + 3}).size; s += case s when #{i} then 1 when #{i + 1} then 2 else 0 end" }.join("\n")
    3.times do |round|
      from_binary("module M#{round}\n" + (0...8).map { |m| "def self.m#{m}\ns = 0\n#{literals}\ns\nend" }.join("\n") + "\nend").eval
      mod = Object.const_get("M#{round}")
      all = Array.new(6) { Ractor.new(mod) { |m| (0...8).map { |i| m.public_send("m#{i}") } } }.map(&:value)
      abort all.uniq.inspect unless all.uniq.size == 1
    end
    puts "ok"
  RUBY
end

lazy_claim "blocks of code that waits are isolated for Ractors as others are" do
  ruby_ok LAZY + <<~'RUBY', "-W:no-experimental"
    source = "module Made\n  def self.good = (a = 1; proc { a + 1 })\n  def self.bad = (a = []; proc { a << 1 })\n  def self.outer = (a = 1; proc { a = 2 })\nend"
    shareable = -> { %i[good bad outer].map { |name| Ractor.shareable_proc(&Made.public_send(name)).call rescue $!.class } }
    facts = lambda do
      [Ractor.make_shareable(Made.instance_eval { good }).call, (Ractor.make_shareable(Made.bad) rescue $!.class), (Ractor.make_shareable(Made.instance_eval { outer }) rescue $!.class),
       (Ractor.new(&Made.good) rescue $!.class), *(shareable.call if Ractor.respond_to?(:shareable_proc))]
    end
    eval(source)
    expected = facts.call
    Object.send(:remove_const, :Made)
    from_binary(source).eval
    abort "#{facts.call} not #{expected}" unless facts.call == expected
    puts "ok"
  RUBY
end

lazy_claim "code that waits runs in the box that it was required in", ruby: "4.0" do
  ruby_ok LAZY + <<~'RUBY', "-W:no-experimental", env: { "RUBY_BOX" => "1" }
    File.write("library.rb", <<~'CODE')
      class String
        def blank? = strip.empty?
      end
      module Library
        def self.blank(list) = list.map { |text| text.blank? }
        def self.box = Ruby::Box.current
      end
    CODE
    LOADED = []
    class ISeq
      def self.load_iseq(path) = (load_from_binary(compile_file(path).to_binary).tap { LOADED << _1 } if path.end_with?("/library.rb"))
    end
    boxes = Array.new(2) { Ruby::Box.new.tap { |box| box.require("./library.rb") } }
    abort "#{LOADED.map { waiting(_1) }} wait" unless LOADED.map { waiting(_1) } == [3, 3]
    boxes.each do |box|
      GC.start
      abort "another box" unless box::Library.box == box
      abort "blank?" unless box::Library.blank(["", "a"]) == [true, false]
    end
    abort "in all boxes" if "".respond_to?(:blank?)
    puts "ok"
  RUBY
end

lazy_claim "a stack that overflows while code is loaded leaves all code callable" do
  ruby_ok LAZY + <<~'RUBY', limit: 120
    count = 3000
    from_binary((0...count).map { |i| "def f#{i}(n) = (x = [n, \"s#{i}\", { a: #{i} }]; n.zero? ? x : call_next(#{i}, n) { |a| a })\n" }.join).eval
    def call_next(i, n) = send("f#{(i + 1) % 3000}", n - 1)
    4.times do |round|
      begin
        send("f#{round * 700}", 1_000_000)
        abort "no end"
      rescue SystemStackError
      end
      from_binary((0...count).map { |i| "def f#{i}(n) = (x = [n, \"s#{i}\", { a: #{i} }]; n.zero? ? x : call_next(#{i}, n) { |a| a })\n" }.join).eval if round == 1
    end
    count.times { |i| abort "f#{i}" unless send("f#{i}", 0) == [0, "s#{i}", { a: i }] }
    puts "ok"
  RUBY
end

lazy_claim "code that waits is freed with the last that refers to it, and what is loaded stays" do
  ruby_ok LAZY + <<~'RUBY'
    source = (0...100).map { |i| "def self.m#{i} = [#{i}].map { |n| n + 1 }\n" }.join
    text = binary("Class.new do\n#{source}\nend")
    count = -> { GC.start; ObjectSpace.count_imemo_objects[:imemo_iseq] }
    ISeq.load_from_binary(text).eval
    before = count.call
    100.times { |i| made = ISeq.load_from_binary(text).eval; abort "m" unless made.m5 == [6] }
    abort "#{count.call - before} are left" if count.call - before > 1_000
    kept = 20.times.map { ISeq.load_from_binary(text).eval }
    count.call
    kept.each_with_index { |made, i| 100.times { |n| abort "m#{n}" unless made.public_send("m#{n}") == [n + 1] } }
    puts "ok"
  RUBY
end

lazy_claim "what looks at the heap sees code that waits as a cell" do
  ruby_ok with_kinds(<<~'RUBY')
    code = from_binary(KINDS)
    code.eval
    before = waiting(code)
    GC.start
    GC.compact
    ObjectSpace.memsize_of_all
    ObjectSpace.each_object { }
    ObjectSpace.dump_all(output: File.open(File::NULL, "w"))
    seen = {}
    look = ->(o, depth) { next if depth > 6 || seen[o.__id__]; seen[o.__id__] = true; (ObjectSpace.reachable_objects_from(o) || []).each { look[_1, depth + 1] if ObjectSpace::InternalObjectWrapper === _1 || Module === _1 } }
    look[Kinds::Kid, 0]
    abort "#{waiting(code)} wait, not #{before}" unless waiting(code) == before
    Kinds.all
    puts "ok"
  RUBY
end

lazy_claim "a parent loads what waits before its first child begins, also what is in it, and at Process.warmup" do
  ruby_ok LAZY + <<~'RUBY'
    deep = "def deep = [1].map { |a| [a].map { |b| -> { a + b } } }\n"
    kept = []
    load = ->(name) { kept << from_binary("#{deep}module #{name}; def self.m = 1; def m = [2].each { }; end"); kept.last.eval; kept.last }
    first = load["First"]
    abort "nothing waits" if waiting(first) < 3
    Process.wait(fork { exit!(waiting(first) == 0 ? 0 : 1) })
    abort "the child had to load" unless $?.success?
    abort "#{waiting(first)} wait in the parent" unless waiting(first) == 0
    second = load["Second"]
    Process.wait(fork { exit!(waiting(second) > 0 ? 0 : 1) })
    abort "a second fork loads, too" unless $?.success?
    Process.warmup
    abort "#{waiting(second)} wait after Process.warmup" unless waiting(second) == 0
    abort "wrong" unless deep().flatten.map(&:call) == [2] && First.m == 1
    puts "ok"
  RUBY
end

lazy_claim "a program that is asked while waiting code is loaded for children meets none of the collector's lists" do
  ruby_ok IN_THE_MIDDLE + <<~'RUBY', "-w"
    asked = lists = 0
    load_middle
    in_the_middle do
      asked += 1
      ObjectSpace.each_object(Array) do |array|
        inside = ObjectSpace.reachable_objects_from(array) || []
        lists += 1 if inside.any? { ObjectSpace::InternalObjectWrapper === _1 && _1.type == :T_IMEMO }
      end
    end
    Process.warmup
    abort "nothing warned" unless asked > 0
    abort "#{lists} lists" unless lists == 0
    puts "ok"
  RUBY
end

lazy_claim "what another thread raises while waiting code is loaded for children is raised when that is done, and then there is no fork" do
  ["Process.warmup", "fork { puts 'a child'; exit! }"].each do |order|
    ruby_prints("0 wait\nfrom outside\n", IN_THE_MIDDLE + <<~RUBY, "-w")
      code = load_middle
      main = Thread.current
      in_the_middle do
        in_the_middle
        Thread.new { main.raise("from outside") }.join
      end
      begin
        #{order}
        puts "nothing was raised"
      rescue => error
        puts "\#{waiting(code)} wait", error.message
      end
    RUBY
  end
end

lazy_claim "what cannot be loaded before a child begins goes on waiting, and the program does not notice" do
  ruby_ok LAZY + <<~'RUBY', "-w"
    code = from_binary("def good = 1\ndef bad = /[aa]/.match?('a')\n")
    code.eval
    $stop = true
    def Warning.warn(*, **) = ($stop and raise "no warning is wanted")
    Process.wait(fork { exit!(good == 1 && waiting(code) == 1 ? 0 : 1) })
    abort "the child" unless $?.success?
    abort "#{waiting(code)} wait, #{$!.inspect}" unless waiting(code) == 1 && $!.nil?
    $stop = false
    abort "bad" unless bad
    puts "ok"
  RUBY
end

lazy_claim "the bytes that code was loaded from go when nothing waits any more" do
  # A form of 200 KB shares a mapping with others, one of 800 KB has its own.
  ruby_ok LAZY + <<~'RUBY'
    PAGE_BYTES = 4096
    resident_mib = -> { GC.start; GC.start; File.read("/proc/self/statm").split[1].to_i * PAGE_BYTES >> 20 }
    before = resident_mib.call
    forms = [200_000, 800_000].to_h { |bytes| [bytes, binary("def held = #{("x" * bytes).inspect}")] }
    20.times { |n| forms.each { |bytes, form| Module.new { ISeq.load_from_binary(form.dup).eval; Object.alias_method(:"held#{n}_#{bytes}", :held) } } }
    waiting = resident_mib.call
    abort "#{before} MiB, and #{waiting} while 20 MB wait" unless waiting >= before + 18
    20.times { |n| forms.each { |bytes, form| abort "damaged" if send(:"held#{n}_#{bytes}").then { _1.size != bytes || _1.count("x") != bytes } } }
    20.times { |n| forms.each_key { |bytes| Object.remove_method(:"held#{n}_#{bytes}") } }
    Object.remove_method(:held)
    # A call may be on the stack still.
    left = resident_mib.call
    abort "#{before} MiB, #{waiting} while they waited, #{left} left" unless left <= before + 6
    puts "ok"
  RUBY
end

lazy_claim "writing a binary form leaves no memory behind" do
  ruby_ok LAZY + <<~'RUBY'
    payload_mib = -> { GC.start; GC.stat(:payload_bytes) >> 20 }
    code = ISeq.compile((0...600).map { |n| "def m#{n}(a) = [#{(0...100).map { |i| "a + #{i}" }.join(", ")}]\n" }.join)
    before = payload_mib.call
    code.to_binary
    code.to_binary
    left = payload_mib.call
    abort "#{before} MiB, #{left} left" unless left <= before + 1
    puts "ok"
  RUBY
end

lazy_claim "a parent in which code waited collects before its first child begins, unless that is disabled" do
  form = LAZY + <<~'RUBY'
    form = binary((0...200).map { |n| "def m#{n} = [#{n}].map { _1 + 1 }\n" }.join)
  RUBY
  collections = <<~'RUBY'
    before = GC.stat(:major_gc_count)
    Process.wait(fork { exit! })
    print GC.stat(:major_gc_count) - before
  RUBY
  { "ISeq.load_from_binary(form).eval" => "1", "ISeq.load_from_binary(form).eval; GC.disable" => "0" }.each do |load, expected|
    # With a fixed overhead bytes decide, and not CPU time.
    finished = ruby("#{form}#{load}\n#{collections}", env: { "ASHLAR_SPACE_OVERHEAD" => "40" })
    check_equal(expected, finished.out) { "#{load}: #{finished.describe}" }
  end
end

lazy_claim "nothing waits where an option says so" do
  finished = ruby(LAZY + "code = from_binary('def m = [1].map { |x| x }'); code.eval; p waiting(code), m, GC.config[:lazy_code]", env: { "ASHLAR_LAZY_CODE" => "0" })
  check_equal("0\n[1]\nfalse\n", finished.out) { finished.describe }
end

lazy_claim "a loader that a compaction has moved is found where it is" do
  ruby_ok LAZY + <<~'RUBY', "--disable-gems", env: stress("move-everything")
    40.times { |r| from_binary((0...20).map { |i| "def a#{r}_#{i} = proc { proc { #{i} } }\n" }.join).eval }
    move = -> { GC.compact; GC.start; Array.new(50_000) { Object.new } }
    move.call
    outer = 40.times.flat_map { |r| 20.times.map { |i| send("a#{r}_#{i}") } }
    move.call
    inner = outer.map(&:call)
    move.call
    abort "other numbers" unless inner.map(&:call) == (0...20).to_a * 40
    puts "ok"
  RUBY
end

lazy_claim "a frozen string whose bytes are elsewhere for good is read in place" do
  ruby_ok LAZY + <<~'RUBY' if Subject.has?("fiddle")
    require "fiddle"
    text = binary("def early = 1\ndef late = 'in the string'\n")
    bytes = Fiddle.malloc(text.bytesize + 16)
    place = Fiddle::Pointer.new(bytes, text.bytesize)
    place[0, text.bytesize] = text
    make = Fiddle::Function.new(Fiddle::Handle::DEFAULT["rb_str_new_static"], [Fiddle::TYPE_VOIDP, Fiddle::TYPE_LONG], Fiddle::TYPE_UINTPTR_T)
    string = Fiddle.dlunwrap(make.call(bytes, text.bytesize)).freeze
    ISeq.load_from_binary(string).eval
    string = nil
    GC.start
    abort "early" unless early == 1
    place[text.index("in the string"), 13] = "in the memory"
    abort late unless late == "in the memory"
    puts "ok"
  RUBY
end

lazy_claim "a required file that a hook loads from its binary form is loaded as it runs" do
  ruby_ok LAZY + <<~'RUBY'
    class ISeq
      def self.load_iseq(path) = load_from_binary(compile_file(path).to_binary)
    end
    %w[json set optparse erb time tempfile uri net/http openssl yaml ripper].each { |name| require name }
    begin
      require "csv"
    rescue LoadError # a bundled gem, which a Ruby that was made from a checkout lacks
    end
    abort "json" unless JSON.parse(JSON.generate({ a: [1, "b"] })) == { "a" => [1, "b"] }
    abort "erb" unless ERB.new("<% 2.times { |i| %><%= i %><% } %>").result == "01"
    abort "optparse" unless OptionParser.new { |o| o.on("-x N", Integer) { |n| abort unless n == 3 } }.parse(%w[-x 3 y]) == ["y"]
    abort "psych" unless YAML.load(YAML.dump([1, { "a" => nil }])) == [1, { "a" => nil }]
    abort "uri" unless URI("http://a/b?c#d").query == "c"
    puts "ok"
  RUBY
end

claim "who walks over all code meets no code that has no body", only: "inside", needs: "debug/session" do
  ruby_ok(LAZY + <<~'RUBY')
    module DEBUGGER__; FrameInfo = Struct.new(:location); class ThreadClient; end; end
    gem "debug"
    require "debug/debug"
    source = (0...50).map { |i| "def f#{i} = [#{i}].map { |x| x + 1 }\n" }.join
    from_binary(source).eval
    2.times do
      names = []
      ObjectSpace.each_iseq { |code| names << code.label if code.path == "/made/file.rb" && code.absolute_path && code.first_lineno }
      abort names.inspect unless (0...50).all? { |i| names.include?("f#{i}") }
      50.times { |i| abort "wrong" unless send("f#{i}") == [i + 1] }
    end
    puts "ok"
  RUBY
end

lazy_claim "a forked child that runs code for the first time copies the caches of code, and not what lies beside other code" do
  # The methods differ in size, so that their records are of all size classes.
  ruby_ok IN_A_CHILD + <<~'RUBY'
    class Page; def a(x) = x; def b(x) = x; end
    eval 12_000.times.map { |i| <<~CODE }.join
      def method_#{i}(page, first = #{i}, key: first)
        #{Array.new(i * 7919 % 17) { |at| "local_#{at} = first" }.join("; ")}
        #{Array.new(i % 13 + 1) { "first = page.a(page.b(first))" }.join("\n    ")}
      end
    CODE
    names = Array.new(3_000) { |i| :"method_#{i * 4}" }
    page = Page.new
    method_1(page)
    GC.start
    private_kib
    in_a_child do
      private_kib
      before = private_kib
      names.each { |name| send(name, page) }
      grown = private_kib - before
      # All caches of code together are about 2.5 MiB. Among other payloads they lie on pages of 6 MiB.
      abort "#{grown} KiB are copied" if grown > 5_000
    end
  RUBY
end
