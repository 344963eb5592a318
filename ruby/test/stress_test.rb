# A few hundred lines of everyday Ruby, run with a collection at every chance.
MIXED = <<~'RUBY'
  module Shape
    def describe = "#{self.class.name.downcase} of #{area.round(2)}"
  end
  Circle = Struct.new(:radius) { include Shape; def area = 3.14159 * radius**2 }
  Square = Struct.new(:side, keyword_init: true) { include Shape; def area = side * side }
  Point = Data.define(:x, :y) do
    def +(other) = with(x: x + other.x, y: y + other.y)
  end
  class Account
    class Overdrawn < StandardError
      attr_reader :missing
      def initialize(missing) = super("missing #{@missing = missing}")
    end
    attr_reader :balance, :history
    def initialize = (@balance = 0; @history = [])
    def move(amount, note: nil, **tags)
      raise Overdrawn.new(-(@balance + amount)) if @balance + amount < 0
      @balance += amount
      @history << { amount:, note:, tags: }.compact
      self
    end
  end
  class Tree
    include Enumerable
    def initialize = @root = nil
    def <<(value)
      @root = insert(@root, value)
      self
    end
    def each(&block) = block ? walk(@root, &block) : enum_for(:each)
    private
    def insert(node, value)
      return [value, nil, nil] unless node
      node[value < node[0] ? 1 : 2] = insert(node[value < node[0] ? 1 : 2], value)
      node
    end
    def walk(node, &block)
      return unless node
      walk(node[1], &block)
      yield node[0]
      walk(node[2], &block)
    end
  end
  results = []
  record = ->(name, value) { results << "#{name}=#{value.inspect}" }

  record.(:shapes, [Circle.new(2), Square.new(side: 3)].map(&:describe))
  record.(:points, [Point.new(1, 2), Point.new(3, 4)].inject(:+).to_h)
  account = Account.new.move(100, note: "start").move(-30, kind: :food, day: 1)
  begin
    account.move(-500)
  rescue Account::Overdrawn => error
    record.(:overdrawn, [error.message, error.missing])
  end
  record.(:history, account.history)
  tree = [5, 2, 9, 1, 7, 3].inject(Tree.new, :<<)
  record.(:tree, [tree.to_a, tree.each.next, tree.lazy.map { _1 * 2 }.select(&:even?).first(3), tree.each_slice(4).to_a])
  record.(:strings, ["%05.1f|%-6s|%+d" % [3.14159, "ab", 7], "añb".bytes.size, "a,b;c".split(/[,;]/), "x" * 200, "tr".succ,
                     "hello world".gsub(/o(.)?/) { "<#{$1}>" }, "été".unicode_normalize(:nfd).size, "abc".encode("UTF-16LE").bytesize])
  text = +""
  60.times { |i| text << "piece #{i} " << i.to_s * (i % 5) }
  record.(:built, [text.size, text.hash == text.dup.hash, text[10..20], text.scan(/\d+/).sum(&:to_i)])
  hash = {}
  80.times { |i| hash[i.even? ? "key #{i}" : :"sym#{i}"] = [i, { i => i.to_s }] }
  hash.delete_if { |_, (i, _)| i % 3 == 0 }
  record.(:hash, [hash.size, hash.keys.first(3), hash.transform_values(&:first).values.sum, hash.group_by { |key, _| key.class }.transform_values(&:size)])
  record.(:compare, {}.compare_by_identity.merge("a" => 1).size)
  array = Array.new(120) { |i| i * i % 17 }
  array.insert(7, *%w[x y z]).concat([nil] * 5).compact!
  record.(:array, [array.size, array.grep(Integer).tally.max_by(&:last), array.each_cons(2).count { |a, b| a == b }, array.rotate(5).first(4), array.partition { Integer === _1 }.map(&:size)])
  record.(:sorting, array.grep(Integer).sort_by { |n| [-n, n.to_s] }.first(5))
  record.(:pack, [[1, 2.5, "abc"].pack("NEA5").unpack("NEA5"), ["deadbeef"].pack("H*").unpack1("w*")])
  record.(:numbers, [(1..25).inject(:*), 2**200 % 1_000_007, Rational(3, 4) + 0.25r, Complex(1, 2) * Complex(0, 1), 10.0.divmod(3), 255.digits(16)])
  record.(:marshal, Marshal.load(Marshal.dump([Circle.new(1.5), { a: ["b", 1 << 70] }, 1..3, :sym])).inspect)
  counter = 0
  fiber = Fiber.new { |x| loop { x = Fiber.yield(counter += x) } }
  record.(:fiber, [1, 2, 3].map { fiber.resume(_1) })
  record.(:threads, Array.new(4) { |i| Thread.new { Array.new(5) { |k| "#{i}#{k}" }.join } }.map(&:value))
  record.(:pattern, case { user: { name: "Ada", tags: %w[a b] } }
                    in { user: { name: String => name, tags: [*, "b", *] } } then "found #{name}"
                    end)
  record.(:catch, catch(:done) { 10.times { |i| throw :done, "at #{i}" if i == 3 } })
  define_method = Class.new { 5.times { |i| define_method("m#{i}") { |*rest, k: i, &b| [i, rest, k, b&.call] } } }.new
  record.(:methods, [define_method.m3(1, 2, k: 9) { "block" }, define_method.method(:m1).to_proc.call(4)])
  ghost = Class.new { def method_missing(name, *rest) = name.end_with?("?") ? rest.size : super; def respond_to_missing?(name, _) = name.end_with?("?") }.new
  record.(:missing, [ghost.anything?(1, 2), ghost.respond_to?(:x?), (ghost.nothing rescue $!.class)])
  curried = ->(a, b, c) { [a, b, c].join("-") }.curry
  record.(:curry, [curried[1][2][3], (curried[:x] >> ->(f) { f[:y][:z] }).call.to_s]) rescue record.(:curry, $!.class)
  record.(:eval, 20.times.map { |i| eval("->(x) { x * #{i} }").call(3) }.sum)
  record.(:frozen, ("lit".frozen?.to_s + (FROZEN = [1, "two"].freeze).map(&:to_s).join))
  record.(:refine, Module.new { refine(String) { def shout = upcase + "!" } }.then { |m| Class.new { eval("using m; def go = 'hey'.shout") ; }.new.respond_to?(:go) }) rescue record.(:refine, $!.class)
  record.(:regexp, "2024-05-06T07:08".match(/(?<year>\d+)-(?<month>\d+)/).named_captures)
  record.(:enumerators, [Enumerator.produce(1) { _1 * 3 }.take(6), (1..3).each_with_object([]).each { |i, a| a << i }, %w[a b].cycle.first(5), [4, 5].each.with_index(1).to_a])
  record.(:ivars, 30.times.map { |i| o = Object.new; (i % 12).times { |k| o.instance_variable_set("@v#{k}", "x" * k) }; o.instance_variables.size }.sum)
  record.(:generic, ["str", [1], { a: 1 }].each { |o| 5.times { |k| o.instance_variable_set("@g#{k}", "g#{k}") } }.map { _1.instance_variable_get(:@g3) })
  record.(:objects, [ObjectSpace::WeakMap.new.tap { |w| w["k"] = Object.new }.size >= 0, Object.new.object_id.is_a?(Integer)])
  record.(:io, IO.pipe.then { |r, w| w.write("through a pipe\n" * 20); w.close; r.read.lines.size })
  record.(:exceptions, 10.times.map { |i| Integer(i.odd? ? "x#{i}" : i.to_s) rescue $!.message.size })
  record.(:backtrace, (begin; [1].fetch(9); rescue IndexError => e; e.backtrace.first.class; end))
  record.(:time, Time.at(0, in: "UTC").strftime("%Y-%m-%d %H:%M:%S %z"))
  record.(:symbols, 50.times.map { |i| "dynamic_#{i}".to_sym }.map(&:to_s).last)
  record.(:set, Set.new([3, 1, 2, 3]).then { |s| [s.size, s.include?(2), (s | [9]).sort, s.subset?(Set[1, 2, 3, 4])] })
  record.(:ranges, [(1..10).step(3).to_a, ("a".."e").each_slice(2).to_a, (1..).lazy.reject(&:odd?).first(3)])
  record.(:clone, [[1, [2]].dup.tap { _1 << 3 }, { a: { b: 1 } }.merge(c: 2).to_a.flatten, "s".clone(freeze: true).frozen?])
  record.(:singleton, Object.new.tap { |o| def o.hi = "hi"; o.singleton_class.attr_accessor(:z); o.z = 5 }.then { [_1.hi, _1.z] })
  record.(:procs, [proc { |a, (b, c), *d| [a, b, c, d] }.call([1, [2, 3], 4, 5]), lambda(&:to_s).call(7)])
  record.(:heredoc, <<~TEXT.lines.map(&:strip))
    indented
      more #{1 + 1}
  TEXT
  puts results
RUBY

def lines_match(plain, stressed)
  check(plain.ok?) { plain.describe }
  check(stressed.ok?) { stressed.describe }
  plain.out.lines.zip(stressed.out.lines) { |a, b| check_equal(a, b) }
  check_equal(plain.out.lines.size, stressed.out.lines.size)
end

# Each allocation collects all that is there: without gems that is half as much, and the program takes a third of the time.
claim "mixed code gives the same answers under GC.stress" do
  lines_match(ruby(MIXED), ruby("GC.stress = true\n#{MIXED}", "--disable-gems", limit: 300))
end

claim "mixed code gives the same answers under GC.stress with YJIT" do
  lines_match(ruby(MIXED), ruby("GC.stress = true\n#{MIXED}", "--disable-gems", "--yjit", "--yjit-call-threshold=1", limit: 300))
end

claim "mixed code gives the same answers with only minor collections forced" do
  lines_match(ruby(MIXED), ruby("GC.stress = 1\n#{MIXED}", limit: 300))
end

[3, 400].each do |cells|
  claim "mixed code gives the same answers while a collection is always going on, #{cells} cells at each allocation", only: "ashlar" do
    lines_match(ruby(MIXED), ruby(MIXED, env: stress("slice-cells:#{cells}"), limit: 300))
  end
end

claim "mixed code gives the same answers with YJIT while a collection is always going on", only: "ashlar" do
  lines_match(ruby(MIXED), ruby(MIXED, "--yjit", "--yjit-call-threshold=1", env: stress("slice-cells:100"), limit: 300))
end

# Ruby replaces the hash of keywords by another one in code that is old by now, and
# does not tell.
claim "keywords after a splat, with a block, are compiled under GC.stress" do
  ruby_prints("{a: 11, b: 12, c: 13}\n" * 2, <<~'RUBY')
    def keywords(*, **all, &) = all
    list, block = [1], proc {}
    [1, true].each do |stress|
      GC.stress = stress
      call = eval("proc { keywords(*list, a: 11, b: 12, c: 13, &block) }")
      GC.stress = false
      100.times { |i| { i => i }.dup }
      p call.call
    end
  RUBY
end

claim "GC.stress returns the value it was given and can be switched off" do
  ruby_prints("[false, true, 3, false]\n", <<~'RUBY')
    seen = [GC.stress]
    GC.stress = true
    seen << GC.stress
    GC.stress = 3
    seen << GC.stress
    GC.stress = false
    seen << GC.stress
    p seen
  RUBY
end

claim "json, yaml and erb work under GC.stress" do
  ruby_ok <<~'RUBY', "--disable-gems", limit: 300
    require "json"
    require "yaml"
    require "erb"
    data = { "list" => [1, 2.5, nil, true, "tëxt"], "nested" => { "a" => ["b"] } }
    GC.stress = true
    json = JSON.parse(JSON.generate(data))
    yaml = YAML.load(YAML.dump(data))
    page = ERB.new("<% list.each do |x| %><%= x %>;<% end %>").result_with_hash(list: data["list"])
    GC.stress = false
    abort "json" unless json == data
    abort "yaml" unless yaml == data
    abort page unless page == "1;2.5;;true;tëxt;"
    puts "ok"
  RUBY
end

claim "a collection at every so many allocations is one that an allocation asked for, not GC.stress", only: "ashlar" do
  ruby_prints("newobj\n", "1000.times { Object.new }; puts GC.latest_gc_info(:gc_by)", env: stress("collect-every:50"))
end

claim "while everything moves, the next collection is known to be a full one", only: "ashlar" do
  ruby_prints("force\n", "puts GC.latest_gc_info(:need_major_by)", env: stress("move-everything"))
end
