# Code is traced from its layout: methods, blocks, classes, and what calls remember. The program
# sees nothing of it.

# Code of every kind, made anew in each round, called, and checked. `collect` is called where
# something has just changed.
CODE = <<~'RUBY'
  module Loud
    refine(String) { def shout = upcase + "!" }
  end
  using Loud

  def build(n)
    base = Class.new do
      const_set(:NAME, "base #{n}")
      attr_accessor :value, "field#{n % 5}"
      def initialize(value) = @value = value
      def hello(greeting = "hello #{self.class::NAME}", *rest, mark: "mark #{rest.size}", **more, &block)
        text = "#{greeting} #{mark} #{more.size}"
        block ? block.call(text) : text
      end
      def risky
        yield
      rescue ZeroDivisionError, KeyError => error
        "rescued #{error.class}"
      ensure
        @value = [@value].flatten.last
      end
      class_eval "def defaults(a: #{10**30 + n}, b: 3.25r, c: #{n}i) = [a, b, c]"
      def pattern = /a#{"b" * 3}/o
      def answer = 1
      alias_method :other_answer, :answer
      define_method(:captured) { |add = n| [n, add, value] }
      def shouted = "quiet".shout
      def self.made = (@made ||= "made #{NAME rescue "none"}")
    end
    helper = Module.new do
      def answer = super + 10
      def helped(*, **, &) = hello(*, **, &)
    end
    kid = Class.new(base) do
      const_set(:NAME, "kid #{n}")
      prepend helper
      class_variable_set(:@@count, n)
      def count = self.class.class_variable_get(:@@count)
      def answer = super + 100
      protected def hidden = "hidden"
      def reveal(other) = other.hidden
    end
    object = kid.new(["value #{n}"])
    object.define_singleton_method(:alone) { "alone #{n}" }
    closure = proc { |x| [x, n, object] }
    [kid, object, kid.instance_method(:captured), object.method(:answer), closure, inner(n), [n, "b"].each, Class.new.new.singleton_class, n]
  end

  # A block whose variables are those of two frames that are on no stack any more.
  def inner(n)
    outer = "outer #{n}"
    -> { middle = "middle #{n}"; -> { [outer, middle] } }.call
  end

  def right?((kid, object, unbound, bound, closure, inner, enumerator, singleton, n))
    object.hello == "hello kid #{n} mark 0 0" && object.hello("x", 1, mark: "m", k: 2) == "x m 1" &&
      object.helped("y", 1, 2) { |text| text * 2 } == "y mark 2 0" * 2 &&
      object.risky { 1 / 0 } == "rescued ZeroDivisionError" && object.risky { {}.fetch(:a) } == "rescued KeyError" &&
      object.pattern.match?("xabbb") && object.answer == 111 && object.other_answer == 1 && bound.call == 111 &&
      object.captured == [n, n, "value #{n}"] && unbound.bind_call(object, 7) == [n, 7, "value #{n}"] &&
      object.shouted == "QUIET!" && object.count == n && object.alone == "alone #{n}" &&
      object.reveal(object) == "hidden" && closure.call(1) == [1, n, object] && kid.made.start_with?("made") &&
      object.defaults == [10**30 + n, 13 / 4r, n.i] && inner.call == ["outer #{n}", "middle #{n}"] &&
      enumerator.to_a == [n, "b"] && singleton.attached_object.singleton_class.equal?(singleton) &&
      object.public_send("field#{n % 5}=", "f#{n}") == "f#{n}" && object.public_send("field#{n % 5}") == "f#{n}"
  end

  def change(row)
    kid, object, = row
    kid.class_eval { def answer = super + 200 }
    object.answer == 211 or abort "redefined"
    collect
    object.answer == 211 or abort "redefined, collected"
    kid.class_eval { remove_method(:answer) }
    object.answer == 11 or abort "removed"
    collect
    kid.class_eval { def answer = super + 100 }
    object.answer == 111 or abort "defined anew"
    kid.send(:undef_method, :count)
    (object.count rescue "undefined") == "undefined" or abort "undefined"
    collect
    kid.class_eval { def count = self.class.class_variable_get(:@@count) }
    kid.class_eval("def late = 'late #{object.object_id % 10}'.dup")
    object.late.start_with?("late") or abort "late"
    fresh = Module.new { def reveal(other) = "included #{super}" }
    kid.prepend(fresh)
    object.reveal(object) == "included hidden" or abort "included"
    collect
    row.replace(build(row.last))
  end

  def rounds(count, size = 60)
    rows = Array.new(size) { |n| build(n) }
    count.times do |round|
      (round % 7...size).step(7) { |i| change(rows[i]) }
      (round % 3...size).step(3) { |i| rows[i] = build(i) }
      collect
      rows.each_with_index { |row, i| right?(row) or abort "row #{i} in round #{round}" }
    end
  end
RUBY

# Whether code of every kind lives through these collections.
def lives_through(collect, *options, **rest)
  ruby_ok(CODE + "def collect = #{collect}\nrounds(12)\nputs \"ok\"\n", *options, limit: 180, **rest)
end

{
  "full ones at once" => [{ "ASHLAR_INCREMENTAL" => "0" }, "GC.start"],
  "full ones by several threads" => [{ "ASHLAR_THREADS" => "4", **stress("parallel-cells:0") }, "GC.start"],
  "minor ones" => [{}, "GC.start(full_mark: false)"],
  "such in slices of a few cells" => [stress("slice-cells:50"), "nil"],
  "compactions" => [{}, "GC.compact"],
}.each do |which, (environment, collect)|
  claim "code of every kind lives through collections: #{which}" do
    lives_through(collect, env: environment)
  end
end

claim "code of every kind lives through collections that are verified", only: "ashlar" do
  ruby_ok CODE + <<~'RUBY', "--disable-gems", env: stress("verify", "collect-every:1000"), limit: 180
    def collect = GC.start(full_mark: ($is_full = !$is_full))
    rounds(4, 20)
    puts "ok"
  RUBY
end

claim "code of every kind lives through collections while YJIT compiles it" do
  lives_through("GC.start", "--yjit", "--yjit-call-threshold=2")
end

claim "code of every kind lives through collections and compactions while ZJIT compiles it", ruby: "4.0" do
  %w[GC.start GC.compact].each do |collect|
    lives_through(collect, "--zjit", "--zjit-call-threshold=2") if Subject.has?("ZJIT")
  end
end

claim "code that ZJIT compiled keeps the classes that it looks for", ruby: "4.0" do
  ruby_ok <<~'RUBY', "--zjit", "--zjit-call-threshold=2" if Subject.has?("ZJIT")
    def made(answer) = Class.new { class_eval("def answer = #{answer}") }
    def overwrite_stack(n) = n.zero? ? nil : overwrite_stack(n - 1)
    100.times do |i|
      eval("def call#{i}(object) = object.answer")
      object = made(i).new
      5.times { abort "at first" unless send("call#{i}", object) == i }
    end
    overwrite_stack(100)
    GC.start
    others = Array.new(400) { |n| made(1_000 + n).new }
    100.times do |i|
      others.each_with_index { |other, n| abort "the answer of a class that died" unless send("call#{i}", other) == 1_000 + n }
    end
    puts "ok"
  RUBY
end

claim "code that several Ractors run lives through their collections" do
  ruby_ok <<~'RUBY', "-W0", env: stress("collect-every:2000"), limit: 120
    class Counter
      def initialize(n) = @n = n
      def add(other = @n, times: 1) = times.times.sum { [other, @n].max }
    end
    ractors = Array.new(4) do |n|
      Ractor.new(n) do |number|
        40.times.sum do |i|
          klass = Class.new(Counter) { def add(...) = super + 1 }
          klass.new(number + i).add(times: 3)
        end
      end
    end
    expected = Array.new(4) { |n| 40.times.sum { |i| 3 * (n + i) + 1 } }
    abort "answers" unless ractors.map(&:value) == expected
    puts "ok"
  RUBY
end

# Ruby loads the code of `rescue` and `ensure` into older code without a write barrier.
LOADED = <<~'RUBY'
  method = <<~'METHOD'
    def number%d(text, other = "other %d")
      [text, other].map { |one| begin; Integer(one); rescue ArgumentError => error; [error.class, "text %d"]; ensure; one.to_s; end }
    rescue TypeError => error
      begin; error.backtrace.fetch(99); rescue IndexError; "caught %d"; end
    ensure
      text.to_s
    end
  METHOD
  binary = RubyVM::InstructionSequence.compile(12.times.map { |n| method.gsub("%d", n.to_s) }.join).to_binary
  ROUNDS.times do
    RubyVM::InstructionSequence.load_from_binary(binary).eval
    12.times do |n|
      send("number#{n}", "7") == [7, [ArgumentError, "text #{n}"]] or abort "rescued in #{n}"
      send("number#{n}", nil) == "caught #{n}" or abort "caught in #{n}"
    end
  end
  puts "ok"
RUBY

[[50, 1], [400, 2]].each do |cells, rounds|
  claim "code that is loaded from its binary form keeps its handlers, in slices of #{cells} cells", only: "ashlar" do
    ruby_ok LOADED.sub("ROUNDS", rounds.to_s), "--disable-gems", env: stress("verify", "slice-cells:#{cells}"), limit: 180
  end
end

claim "what a closure stores into its variables is kept, however old the variables are" do
  ruby_ok <<~'RUBY'
    def closures
      kept = nil
      [->(value) { kept = value }, -> { kept }, -> { -> { kept } }]
    end
    all = Array.new(200) { closures }
    40.times do |round|
      all.each_with_index { |(store, _), n| store.call("#{round} of #{n}") }
      GC.start(full_mark: round % 4 == 0)
      Array.new(2000) { |i| "other #{i}" }
      all.each_with_index do |(_, load, nested), n|
        abort "closure #{n} in round #{round}" unless load.call == "#{round} of #{n}" && nested.call.call == "#{round} of #{n}"
      end
    end
    puts "ok"
  RUBY
end

claim "calls that remember methods of dead classes go to the right ones" do
  ruby_ok <<~'RUBY', limit: 120
    def call_it(object) = object.name + object.deep
    400.times do |round|
      parent = Class.new { define_method(:deep) { "deep #{round}" } }
      kids = Array.new(5) { |n| Class.new(parent) { define_method(:name) { "#{n} " }; def deep = super + "." } }
      texts = kids.map { |kid| call_it(kid.new) }
      abort texts.inspect unless texts == Array.new(5) { |n| "#{n} deep #{round}." }
      kids = parent = nil
      GC.start(full_mark: round % 3 == 0) if round % 2 == 0
    end
    puts "ok"
  RUBY
end

claim "code that nobody refers to is freed: classes, methods, blocks, and what calls remember of them" do
  ruby_ok <<~'RUBY', limit: 120
    require "objspace"
    def make(n)
      klass = Class.new do
        class_eval "def answer(a = #{n}) = [a].map { |x| x + 1 }.sum"
        def self.kind = name
      end
      klass.new.answer + (klass.kind ? 1 : 0)
      klass.class_eval "def answer = 2"
      klass.new.answer
    end
    def counts = ObjectSpace.count_imemo_objects.values_at(:imemo_iseq, :imemo_ment, :imemo_callcache) << ObjectSpace.count_objects[:T_CLASS]
    200.times { |n| make(n) }
    4.times { GC.start }
    before = counts
    2000.times { |n| make(n) }
    4.times { GC.start }
    after = counts
    grown = after.zip(before).map { |now, then_| now - then_ }
    abort "#{before} grew to #{after}" unless grown.all? { |count| count < 200 }
    puts "ok"
  RUBY
end

claim "classes whose methods C has called are freed", needs: "its table of calls from C" do
  ruby_ok <<~'RUBY'
    made = ObjectSpace::WeakMap.new
    make = proc do
      klass = Class.new
      [klass.new].include?(1)
      made[klass] = true
    end
    500.times(&make)
    3.times { GC.start }
    abort "#{made.keys.size} of 500 classes live" unless made.keys.size < 50
    puts "ok"
  RUBY
end

claim "what calls remember of methods that are no more is freed, although their class lives" do
  ruby_ok <<~'RUBY', limit: 120
    require "objspace"
    KLASS = Class.new
    # Of a class that has others below it, Ruby leaves what calls remember to the collector.
    OBJECT = Class.new(KLASS).new
    def define_and_call(n)
      KLASS.class_eval("def answer#{n} = #{n}")
      eval("OBJECT.answer#{n}") == n or abort "answer"
      KLASS.send(:remove_method, "answer#{n}")
    end
    def counts = ObjectSpace.count_imemo_objects.values_at(:imemo_iseq, :imemo_ment, :imemo_callcache)
    200.times { |n| define_and_call(n) }
    4.times { GC.start }
    before = counts
    2000.times { |n| define_and_call(n) }
    4.times { GC.start }
    after = counts
    abort "#{before} grew to #{after}" unless after.zip(before).all? { |now, then_| now - then_ < 200 }
    puts "ok"
  RUBY
end

claim "class variables, constants and values computed once that only code knows are kept" do
  ruby_ok <<~'RUBY', limit: 120
    class Holder
      @@shared = nil
      def self.share(value) = @@shared = value
      def self.shared = @@shared
      def self.once = /#{"o" + "nce"}#{rand(1)}/o
      def self.constant = Holder::TEXT
    end
    Holder.once
    100.times do |round|
      Holder.send(:remove_const, :TEXT) if round > 0
      Holder.const_set(:TEXT, "constant #{round}")
      Holder.share("shared #{round}")
      GC.start(full_mark: round % 5 == 0)
      Array.new(3000) { |i| "other #{i}" }
      abort "constant" unless Holder.constant == "constant #{round}"
      abort "class variable" unless Holder.shared == "shared #{round}"
      abort "once" unless Holder.once.source == "once0"
    end
    puts "ok"
  RUBY
end

claim "code keeps the class variables that it has found, though a second Ractor makes Ruby 4.0 forget them", ruby: "4.0", only: "ashlar" do
  ruby_ok <<~'RUBY', "-W:no-experimental", env: stress("verify")
    class Holder
      500.times { |i| class_eval "@@v#{i} = 'hello'; def self.v#{i} = @@v#{i}" }
      500.times { |i| send "v#{i}" }
      def self.another = (@@another = 2)
    end
    Ractor.new { 1 }.value
    Holder.another
    deep = ->(n) { n == 0 ? 0 : deep[n - 1] }
    deep[300]
    3.times { GC.start }
    puts "ok"
  RUBY
end

claim "what calls of refined methods remember dies with them, and Ruby forgets it" do
  ruby_ok <<~'RUBY', limit: 120
    module Loud
      refine(String) { def shout = upcase + "!" }
    end
    using Loud
    10.times do |round|
      300.times { abort "shout" unless eval("'a'.shout") == "A!" }
      GC.start
      kept = Array.new(20_000) { Object.new }
      Module.new { refine(Integer) { def loud = to_s } }
      abort "overwritten" unless kept.all? { |object| object.class == Object }
    end
    puts "ok"
  RUBY
end
