# Objects move, and nobody notices but by the memory they take.

claim "GC.compact says what it moved, and counts it" do
  ruby_ok <<~'RUBY'
    kept = Array.new(30_000) { |i| [i] }.each_slice(9).map(&:first)
    before = GC.stat.slice(:compact_count, :total_moved_objects, :major_gc_count)
    info = GC.compact
    abort "keys #{info.keys}" unless info.keys == %i[considered moved moved_up moved_down]
    abort "nothing moved" unless info[:moved][:T_ARRAY].to_i > 0
    abort "more moved than considered" unless info[:moved].all? { |type, count| count <= info[:considered][type] }
    abort "not the latest" unless GC.latest_compact_info == info
    after = GC.stat.slice(*before.keys)
    abort "compactions" unless after[:compact_count] == before[:compact_count] + 1
    abort "no full collection" unless after[:major_gc_count] > before[:major_gc_count]
    abort "moved" unless after[:total_moved_objects] - before[:total_moved_objects] == info[:moved].values.sum
    abort "lost" unless kept.each_with_index.all? { |(number), i| number == 9 * i }
    GC.verify_internal_consistency
    puts "ok"
  RUBY
end

claim "a fragmented heap takes few blocks after GC.compact, and its memory goes back" do
  ruby_ok <<~'RUBY', env: stress("poison:0")
    rss_kb = -> { File.read("/proc/self/status")[/VmRSS:\s+(\d+)/, 1].to_i }
    def fragments = Array.new(600_000) { |i| [i, i + 1] }.each_slice(20).map(&:first)
    # What the stack still has of this is gone once another has been used.
    kept = nil
    Fiber.new { kept = fragments; nil }.resume
    3.times { GC.start }
    blocks, kilobytes = GC.stat(:heap_allocated_pages), rss_kb.call
    GC.compact
    left_blocks, left_kilobytes = GC.stat(:heap_allocated_pages), rss_kb.call
    abort "#{blocks} blocks before, #{left_blocks} after" unless left_blocks < blocks / 3
    abort "#{kilobytes} kB before, #{left_kilobytes} kB after" unless left_kilobytes < kilobytes * 0.8
    abort "lost" unless kept.each_with_index.all? { |pair, i| pair == [20 * i, 20 * i + 1] }
    fresh = Array.new(100_000) { |i| "fresh #{i}" }
    abort "reused wrongly" unless fresh.each_with_index.all? { |text, i| text == "fresh #{i}" }
    puts "ok"
  RUBY
end

claim "verify_compaction_references moves everything that may move" do
  ruby_ok <<~'RUBY'
    kept = Array.new(5_000) { |i| [i, "text #{i}", { i => :x }, i / 3r, i * 1.5e300] }
    [{}, { toward: :empty }, { expand_heap: true }, { double_heap: true }].each do |options|
      info = GC.verify_compaction_references(**options)
      %i[T_ARRAY T_STRING T_HASH T_RATIONAL T_FLOAT].each do |type|
        moved, considered = info[:moved][type].to_i, info[:considered][type].to_i
        abort "#{moved} of #{considered} #{type} moved" unless considered >= 4_950 && moved >= considered - 50
      end
    end
    abort "lost" unless kept.each_with_index.all? { |row, i| row == [i, "text #{i}", { i => :x }, i / 3r, i * 1.5e300] }
    begin
      GC.verify_compaction_references(sideways: true)
    rescue ArgumentError => error
      abort "message" unless error.message.include?("sideways")
      puts "ok"
    end
  RUBY
end

# Slot sizes are those of the cells; ObjectSpace.dump tells the form.
FORMS = <<~'RUBY'
  require "objspace"
  require "json"
  def form(object) = JSON.parse(ObjectSpace.dump(object)).values_at("slot_size", "embedded")
  def forms(objects) = objects.map { form(_1) }.tally
  # The pins of a stack that has objects on it are gone once another has been used.
  def elsewhere(&block) = Fiber.new(&block).resume
  def mostly(objects, wanted)
    count = forms(objects)[wanted].to_i
    abort "#{forms(objects)}: #{wanted} is wanted" unless count >= objects.size - 20
  end
RUBY

claim "arrays move to the cell that holds them, wider or narrower" do
  ruby_ok FORMS + <<~'RUBY'
    elsewhere do
      $grown = Array.new(1_000) { |i| 20.times.each_with_object([]) { |n, array| array << i + n } }
      $shrunk = Array.new(1_000) { |i| Array.new(100, i).tap { |array| array.slice!(5, 95) } }
      mostly($grown, [40, nil])
      mostly($shrunk, [896, true])
      nil
    end
    GC.verify_compaction_references
    abort forms($grown).inspect unless forms($grown).count { |(bytes, embedded), _| embedded && bytes >= 176 } >= 1
    mostly($shrunk, [56, true])
    abort "grown" unless $grown.each_with_index.all? { |array, i| array == (i...i + 20).to_a }
    abort "shrunk" unless $shrunk.each_with_index.all? { |array, i| array == [i] * 5 }
    $grown.each { _1 << :more }
    $shrunk.each { |array| 30.times { array << :more } }
    abort "not an array any more" unless $grown.all? { _1.last == :more } && $shrunk.all? { _1.size == 35 }
    puts "ok"
  RUBY
end

claim "strings move to the cell that holds them, wider or narrower" do
  ruby_ok FORMS + <<~'RUBY'
    elsewhere do
      $grown = Array.new(1_000) { |i| +"" << "g" * 90 << i.to_s }
      $shrunk = Array.new(1_000) { |i| ("a" * 500).squeeze! << i.to_s }
      $long = Array.new(1_000) { |i| "long" * 500 + i.to_s }
      nil
    end
    GC.verify_compaction_references
    abort forms($grown).inspect unless forms($grown).all? { |(bytes, embedded), _| embedded && bytes <= 320 }
    abort forms($shrunk).inspect unless forms($shrunk).all? { |(bytes, embedded), _| embedded && bytes <= 48 }
    mostly($long, [40, nil])
    abort "grown" unless $grown.each_with_index.all? { |text, i| text == "g" * 90 + i.to_s }
    abort "shrunk" unless $shrunk.each_with_index.all? { |text, i| text == "a#{i}" }
    abort "long" unless $long.each_with_index.all? { |text, i| text == "long" * 500 + i.to_s }
    $grown.each { _1 << "x" * 1_000 }
    abort "cannot grow" unless $grown.all? { _1.bytesize > 1_090 }
    puts "ok"
  RUBY
end

claim "objects move to the width of their class and keep their variables there" do
  ruby_ok FORMS + <<~'RUBY'
    class Many
      def fill(number)
        10.times { |i| instance_variable_set("@v#{i}", number + i) }
        self
      end
      def values = 10.times.map { |i| instance_variable_get("@v#{i}") }
      def third = @v3
    end
    elsewhere do
      $objects = Array.new(1_000) { Many.new }
      $objects.each_with_index { |object, i| object.fill(i) }
      $frozen = Many.new.fill(7).freeze
      GC.start
      Many.new.fill(0).freeze # the shapes of wider cells
      nil
    end
    info = GC.verify_compaction_references
    abort info.inspect unless info[:moved_up][:T_OBJECT].to_i >= 990
    mostly($objects, [96, true])
    abort "values" unless $objects.each_with_index.all? { |object, i| object.values == (i...i + 10).to_a && object.third == i + 3 }
    $objects.each { |object| object.instance_variable_set(:@one_more, object) }
    abort "cannot grow" unless $objects.all? { |object| object.instance_variable_get(:@one_more).equal?(object) }
    begin
      $frozen.fill(8)
    rescue FrozenError
      puts "ok"
    end
  RUBY
end

claim "structs and hashes of every size hold what they held, and large hashes shrink" do
  ruby_ok FORMS + <<~'RUBY'
    sizes = [1, 2, 3, 4, 7, 20, 100, 126, 127, 200]
    classes = sizes.map { |size| Struct.new(*Array.new(size) { |i| :"m#{i}" }) }
    elsewhere do
      $structs = classes.flat_map { |klass| Array.new(50) { |i| klass.new(*(i...i + klass.members.size)) } }
      $hashes = Array.new(1_000) { |i| 8.times.to_h { |n| [n, i] } }
      $hashes.each { |hash| hash[:ninth] = 9 }
      nil
    end
    small = $structs.first(50)
    mostly(small, [40, form(small[0])[1]])
    info = GC.verify_compaction_references
    abort "structs #{info}" unless info[:moved][:T_STRUCT].to_i >= 480
    abort "hashes #{info}" unless info[:moved_down][:T_HASH].to_i >= 990
    $structs.each_slice(50) { |slice| slice.each_with_index { |struct, i| abort "struct" unless struct.to_a == (i...i + struct.size).to_a } }
    $hashes.each_with_index { |hash, i| abort "hash" unless hash.size == 9 && hash[3] == i && hash[:ninth] == 9 }
    $hashes.each { |hash| hash.clear; hash[:again] = 1 }
    abort "cleared" unless $hashes.all? { _1 == { again: 1 } }
    puts "ok"
  RUBY
end

claim "where objects were allocated is known after they moved" do
  ruby_ok <<~'RUBY'
    require "objspace"
    ObjectSpace.trace_object_allocations do
      objects = Array.new(200) { |i| "text #{i} " * 20 }
      GC.verify_compaction_references
      abort "lost" unless objects.all? { ObjectSpace.allocation_sourcefile(_1) == __FILE__ }
    end
    puts "ok"
  RUBY
end

claim "slices keep seeing the array or string that they share, wherever it moves" do
  ruby_ok <<~'RUBY'
    def slices
      Array.new(500) do |i|
        array = Array.new(60) { |n| i * 100 + n }
        text = "#{i}-" + "shared " * 60
        [array, array[10..50], text, text[5..], text.byteslice(20, 200)]
      end
    end
    kept = slices
    expected = Marshal.load(Marshal.dump(kept))
    3.times { GC.verify_compaction_references }
    abort "differ" unless kept == expected
    kept.each { |array, *| array.clear }
    GC.compact
    abort "slices changed" unless kept.zip(expected).all? { |mine, theirs| mine[1..] == theirs[1..] }
    puts "ok"
  RUBY
end

claim "identity, hash keys, sets and object ids stay when objects move" do
  ruby_ok <<~'RUBY', "-W0"
    require "set"
    objects = Array.new(4_000) { |i| i.even? ? Object.new : "key #{i}" }
    by_identity = {}.compare_by_identity
    objects.each_with_index { |object, i| by_identity[object] = i }
    by_value = objects.each_with_index.to_h
    set = Set.new(objects)
    identities = Set.new.compare_by_identity.merge(objects)
    ids = objects.map(&:object_id)
    hashes = objects.map(&:hash)
    complex = { objects => 1, { objects[0] => 2 } => 3 }
    4.times do
      GC.verify_compaction_references
      objects.each_with_index do |object, i|
        abort "by identity" unless by_identity[object] == i
        abort "by value" unless by_value[object] == i
        abort "set" unless set.include?(object) && identities.include?(object)
        abort "id" unless object.object_id == ids[i] && ObjectSpace._id2ref(ids[i]).equal?(object)
        abort "hash" unless object.hash == hashes[i]
      end
      abort "equal text is not identical" if by_identity.key?(+"key 1")
      abort "complex" unless complex[objects] == 1 && complex[{ objects[0] => 2 }] == 3
    end
    puts "ok"
  RUBY
end

claim "finalizers of objects that moved run once, in order, with the right id" do
  ruby_prints "ok\n" + (0...300).map { |i| "exit #{i}\n" }.join, <<~'RUBY'
    $died = []
    def define(text) = proc { |id| $died << [text, id] }
    def mortals = Array.new(300) { |i| Object.new.tap { ObjectSpace.define_finalizer(_1, define(i)) } }
    EXIT = Array.new(300) { |i| "immortal".dup.tap { |text| ObjectSpace.define_finalizer(text, proc { puts "exit #{i}" }) } }
    def run
      objects = mortals
      ids = objects.map(&:object_id)
      info = GC.verify_compaction_references
      abort "pinned" unless info[:moved][:T_OBJECT].to_i > 250
      abort "too soon" unless $died.empty?
      ids
    end
    ids = Fiber.new { run }.resume
    5.times { GC.compact }
    abort "#{$died.size} died" unless $died.size >= 280
    abort "twice" unless $died.uniq.size == $died.size
    abort "id" unless $died.all? { |i, id| ids[i] == id }
    puts "ok"
  RUBY
end

claim "WeakMap, WeakKeyMap, WeakRef and generic variables follow what moves" do
  ruby_ok <<~'RUBY'
    require "weakref"
    keys = Array.new(1_000) { |i| "key #{i}".dup }
    values = Array.new(1_000) { Object.new }
    map, key_map = ObjectSpace::WeakMap.new, ObjectSpace::WeakKeyMap.new
    keys.zip(values) { |key, value| map[key] = value; key_map[key] = value }
    references = values.map { WeakRef.new(_1) }
    keys.each_with_index { |key, i| key.instance_variable_set(:@number, [i]) }
    20.times { 100.times { map["gone".dup] = Object.new; key_map["gone".dup] = Object.new } }
    4.times do
      GC.verify_compaction_references
      keys.each_with_index do |key, i|
        abort "WeakMap" unless map[key].equal?(values[i])
        abort "WeakKeyMap" unless key_map["key #{i}"].equal?(values[i]) && key_map.getkey("key #{i}").equal?(key)
        abort "WeakRef" unless references[i].weakref_alive? && references[i].__getobj__.equal?(values[i])
        abort "variable" unless key.instance_variable_get(:@number) == [i]
      end
    end
    abort "the dead are still there" if map.size > 1_500
    puts "ok"
  RUBY
end

claim "classes move, with their methods, constants, subclasses and caches" do
  ruby_ok <<~'RUBY'
    module Loud
      def speak = super.upcase
    end
    def hierarchy
      Array.new(60) do |i|
        base = Class.new do
          const_set(:NUMBER, i)
          class_variable_set(:@@count, i)
          define_method(:speak) { "base #{i}" }
          def self.number = const_get(:NUMBER)
          attr_accessor :name
          def ==(other) = other.class == self.class && name == other.name
        end
        derived = Class.new(base) { prepend Loud; def speak = super + "!" }
        object = derived.new
        object.name = "n#{i}"
        def object.own = [self.class, name]
        [base, derived, object]
      end
    end
    def check(all)
      all.each_with_index do |(base, derived, object), i|
        abort "speak" unless object.speak == "BASE #{i}!"
        abort "own" unless object.own == [derived, "n#{i}"]
        abort "constant" unless derived.number == i && base.class_variable_get(:@@count) == i
        abort "ancestors" unless derived.superclass == base && base.subclasses == [derived] && derived.ancestors.include?(Loud)
        abort "instance" unless object.is_a?(base) && base === object && derived.allocate.is_a?(derived)
        abort "method" unless object.method(:speak).owner == Loud && derived.instance_method(:name=).owner == base
      end
    end
    all = Fiber.new { hierarchy.each { |base, derived, object| object.speak } }.resume
    check(all)
    5.times do
      info = GC.verify_compaction_references
      moved, classes = info[:moved].values_at(:T_CLASS, :T_ICLASS).map(&:to_i).sum, all.size * 2
      abort "#{moved} classes moved" unless moved >= classes
      check(all)
    end
    all.each { |base, *| base.class_eval { def speak = "new" } }
    abort "redefined" unless all.all? { |_, _, object| object.speak == "NEW!" }
    puts "ok"
  RUBY
end

claim "closures, methods, fibers, threads, enumerators and exceptions go on after a move" do
  ruby_ok <<~'RUBY'
    def counter(start) = [-> { start += 1 }, binding, method(:puts).unbind]
    counters = Array.new(200) { |i| counter(i) }
    fibers = Array.new(50) { |i| Fiber.new { |x| local = ["f#{i}"]; 4.times { x = Fiber.yield(local << x) }; local } }
    fibers.each_with_index { |fiber, i| fiber.resume(i) }
    enumerators = Array.new(50) { |i| Enumerator.new { |y| 9.times { |n| y << [i, n] } }.tap(&:next) }
    queue, answers = Queue.new, Queue.new
    threads = Array.new(4) { Thread.new { mine = "thread".dup; while (n = queue.pop) do answers << [mine, n] end } }
    error = begin raise(ArgumentError, "kept") rescue $! end
    matched = "some text"[/t(e)xt/] && $~
    4.times do |round|
      GC.verify_compaction_references
      counters.each_with_index do |(lambda, binding, _), i|
        abort "closure" unless lambda.call == i + round + 1 && binding.local_variable_get(:start) == i + round + 1
      end
      fibers.each_with_index { |fiber, i| abort "fiber" unless fiber.resume(round).first == "f#{i}" }
      enumerators.each_with_index { |enumerator, i| abort "enumerator" unless enumerator.next == [i, round + 1] }
      queue << round
      abort "thread" unless answers.pop == ["thread", round]
      abort "error" unless error.message == "kept" && error.backtrace.size >= 1 && matched[1] == "e"
    end
    queue.close
    threads.each(&:join)
    puts "ok"
  RUBY
end

claim "symbols, interned strings, constants and required files are found after a move" do
  ruby_ok <<~'RUBY'
    require "json"
    dynamic = Array.new(500) { |i| "dynamic_#{i}_#{Process.pid}".to_sym }
    interned = Array.new(500) { |i| -"interned #{i}" }
    4.times { GC.verify_compaction_references }
    dynamic.each_with_index { |symbol, i| abort "symbol" unless "dynamic_#{i}_#{Process.pid}".to_sym.equal?(symbol) }
    interned.each_with_index { |text, i| abort "interned" unless (-"interned #{i}").equal?(text) }
    abort "loaded twice" if require("json")
    require "delegate"
    abort "library" unless JSON.parse(JSON.generate(SimpleDelegator.new({ a: [1] }).to_h)) == { "a" => [1] }
    abort "eval" unless eval("Class.new { X_#{Process.pid} = :new; def y = :y }.new.y") == :y
    puts "ok"
  RUBY
end

claim "with GC.auto_compact full collections move objects, minor ones do not" do
  ruby_ok <<~'RUBY'
    abort "on at first" if GC.auto_compact
    GC.auto_compact = true
    abort "off" unless GC.auto_compact == true
    kept = Array.new(50_000) { |i| [i] }.each_slice(7).map(&:first)
    compactions = GC.stat(:compact_count)
    GC.start
    abort "no compaction" unless GC.stat(:compact_count) == compactions + 1
    abort "none moved" if GC.latest_compact_info[:moved].empty?
    churn = Array.new(20_000)
    1_500_000.times { |i| churn[i % 20_000] = i.to_s * 3 }
    count = GC.stat(:compact_count) - compactions
    GC.auto_compact = false
    GC.start
    abort "still on" unless GC.stat(:compact_count) == compactions + count
    abort "lost" unless kept.each_with_index.all? { |(number), i| number == 7 * i }
    GC.verify_internal_consistency
    puts "ok"
  RUBY
end

claim "GC.compact stops Ractors, and moves what they have" do
  ruby_ok <<~'RUBY', "-W0"
    ractors = Array.new(3) do |r|
      Ractor.new(r) do |number|
        kept = {}
        60_000.times do |i|
          kept["k#{i % 500}"] = [number, i, "v#{i}"]
          abort "lost in Ractor" unless kept["k#{i % 500}"] == [number, i, "v#{i}"]
        end
        kept.size
      end
    end
    shared = Ractor.make_shareable(Array.new(1_000) { |i| "shared #{i}" })
    25.times { GC.verify_compaction_references }
    abort "sizes" unless ractors.map(&:value) == [500] * 3
    abort "shared" unless shared.each_with_index.all? { |text, i| text == "shared #{i}" }
    puts "ok"
  RUBY
end

claim "what another Ractor took away does not disturb a move" do
  ruby_ok <<~'RUBY', "-W0"
    taker = Ractor.new { 200.times.map { Ractor.receive }.size }
    class Three; def initialize(a) = (@a = a; @b = @c = 1); end
    husks = Array.new(200) { |i| i.even? ? Three.new(i) : ["array #{i}"] }
    husks.each { |object| taker.send(object, move: true) }
    3.times { GC.verify_compaction_references }
    puts "ok" if taker.value == 200
  RUBY
end

claim "while ObjectSpace is walked nothing moves, and afterwards it does" do
  ruby_ok <<~'RUBY'
    class Seen; end
    $seen = Array.new(2_000) { Seen.new }
    visited = 0
    ObjectSpace.each_object(Seen) do
      visited += 1
      GC.compact if visited % 500 == 0
    end
    abort "visited #{visited}" unless visited == 2_000
    abort "still held" unless GC.verify_compaction_references[:moved][:T_OBJECT].to_i >= 1_900
    ObjectSpace.each_object(Seen) { break }
    begin
      ObjectSpace.each_object(Seen) { raise "out" }
    rescue RuntimeError
    end
    abort "held by a walk that was left" unless GC.verify_compaction_references[:moved][:T_OBJECT].to_i >= 1_900
    puts "ok"
  RUBY
end

claim "a walk over the objects in a fiber that is given up ends, and what it held moves" do
  ruby_ok <<~'RUBY'
    class Seen; end
    $seen = Array.new(2_000) { Seen.new }
    def give_up(depth) = depth.zero? ? 5.times { ObjectSpace.each_object(Seen).next } : give_up(depth - 1)
    Thread.new { give_up(50) }.join # so that no word left on a stack keeps a fiber
    3.times { GC.start }
    abort "held by a walk that was given up" unless GC.verify_compaction_references[:moved][:T_OBJECT].to_i >= 1_900
    walk = ObjectSpace.each_object(Seen)
    first = walk.next
    before = GC.stat(:compact_count)
    GC.verify_compaction_references
    abort "moved while a fiber walks" unless GC.stat(:compact_count) == before
    rest = [first]
    loop { rest << walk.next }
    abort "#{rest.size} met" unless rest.uniq.size == 2_000
    puts "ok"
  RUBY
end

claim "old objects stay old where they moved to, and what they refer to lives" do
  ruby_ok <<~'RUBY'
    kept = Array.new(10_000) { |i| [i] }
    4.times { GC.start }
    old = GC.stat(:old_objects)
    GC.verify_compaction_references
    abort "#{old} old before, #{GC.stat(:old_objects)} after" unless GC.stat(:old_objects) >= old - 500
    kept.each_with_index { |array, i| array << "young #{i}" }
    3.times { GC.start(full_mark: false); Array.new(20_000) { |i| i.to_s } }
    abort "lost" unless kept.each_with_index.all? { |array, i| array == [i, "young #{i}"] }
    GC.verify_internal_consistency
    puts "ok"
  RUBY
end

claim "a C extension keeps the addresses it pinned, and those on its stack" do
  File.write(File.join(folder, "pins.c"), <<~'C')
    #include <ruby.h>
    #include <string.h>
    static VALUE registered;
    struct holder { VALUE held; };
    static void mark(void *data) { rb_gc_mark(((struct holder *)data)->held); }
    static void mark_movable(void *data) { rb_gc_mark_movable(((struct holder *)data)->held); }
    static void compact(void *data) { struct holder *h = data; h->held = rb_gc_location(h->held); }
    static const rb_data_type_t pinning = { "pinning", { mark, RUBY_DEFAULT_FREE, 0, 0 }, 0, 0, 0 };
    static const rb_data_type_t moving = { "moving", { mark_movable, RUBY_DEFAULT_FREE, 0, compact }, 0, 0, 0 };
    static VALUE make(const rb_data_type_t *type, VALUE held)
    {
        struct holder *holder;
        VALUE object = TypedData_Make_Struct(rb_cObject, struct holder, type, holder);
        holder->held = held;
        return object;
    }
    static VALUE pin(VALUE self, VALUE held) { return make(&pinning, held); }
    static VALUE follow(VALUE self, VALUE held) { return make(&moving, held); }
    static VALUE held(VALUE self, VALUE object) { return ((struct holder *)RTYPEDDATA_GET_DATA(object))->held; }
    static VALUE address(VALUE self, VALUE object) { return ULL2NUM(((struct holder *)RTYPEDDATA_GET_DATA(object))->held); }
    static VALUE set_registered(VALUE self, VALUE value) { return registered = value; }
    static VALUE registered_address(VALUE self) { return ULL2NUM(registered); }
    /* Holds the bytes of an embedded string while everything else moves. */
    static VALUE on_stack(VALUE self)
    {
        VALUE text = rb_sprintf("on the stack %d", 42);
        volatile VALUE *address = &text;
        const char *bytes = RSTRING_PTR(text);
        for (int i = 0; i < 5; i++) rb_funcall(rb_path2class("GC"), rb_intern("verify_compaction_references"), 0);
        return RSTRING_PTR(*address) == bytes && !strcmp(bytes, "on the stack 42") ? Qtrue : Qfalse;
    }
    void Init_pins(void)
    {
        VALUE pins = rb_define_module("Pins");
        rb_gc_register_address(&registered);
        rb_define_singleton_method(pins, "pin", pin, 1);
        rb_define_singleton_method(pins, "follow", follow, 1);
        rb_define_singleton_method(pins, "held", held, 1);
        rb_define_singleton_method(pins, "address", address, 1);
        rb_define_singleton_method(pins, "registered=", set_registered, 1);
        rb_define_singleton_method(pins, "registered_address", registered_address, 0);
        rb_define_singleton_method(pins, "on_stack", on_stack, 0);
    }
  C
  ruby_ok <<~'RUBY'
    config = RbConfig::CONFIG
    command = [config["CC"].split.first, "-shared", "-fPIC", "-O1", "-w", "-I#{config["rubyhdrdir"]}", "-I#{config["rubyarchhdrdir"]}", "pins.c", "-o", "pins.so"]
    abort "cannot compile" unless system(*command)
    require "./pins.so"
    pinned = followed = nil
    Fiber.new do
      pinned = Array.new(200) { |i| Pins.pin("pinned #{i}".dup) }
      followed = Array.new(200) { |i| Pins.follow("followed #{i}".dup) }
      Pins.registered = "registered".dup
      nil
    end.resume
    before = [pinned, followed].map { |holders| holders.map { Pins.address(_1) } }
    registered = Pins.registered_address
    GC.verify_compaction_references
    after = [pinned, followed].map { |holders| holders.map { Pins.address(_1) } }
    abort "pinned objects moved" unless after[0] == before[0]
    abort "followed objects stayed" unless after[1].zip(before[1]).count { _1 != _2 } >= 180
    abort "registered address moved" unless Pins.registered_address == registered
    abort "pinned" unless pinned.each_with_index.all? { |holder, i| Pins.held(holder) == "pinned #{i}" }
    abort "followed" unless followed.each_with_index.all? { |holder, i| Pins.held(holder) == "followed #{i}" }
    abort "on the stack" unless Pins.on_stack
    puts "ok"
  RUBY
end

claim "addresses that Fiddle passes to C stay good while they are in use", needs: "fiddle" do
  ruby_ok <<~'RUBY'
    require "fiddle"
    compare = Fiddle::Closure::BlockCaller.new(Fiddle::TYPE_INT, [Fiddle::TYPE_VOIDP] * 2) do |a, b|
      GC.verify_compaction_references if (@calls = @calls.to_i + 1) % 10 == 0
      a.to_s(1).ord <=> b.to_s(1).ord
    end
    qsort = Fiddle::Function.new(Fiddle.dlopen(nil)["qsort"], [Fiddle::TYPE_VOIDP, Fiddle::TYPE_SIZE_T, Fiddle::TYPE_SIZE_T, Fiddle::TYPE_VOIDP], Fiddle::TYPE_VOID)
    text = "movable letters here".dup
    qsort.call(text, text.size, 1, compare)
    abort text unless text == "  abeeeeeehlllmorrstv".chars.sort.join || text.chars.sort.join == text
    puts "ok"
  RUBY
end

claim "a string that is being read into keeps its buffer" do
  ruby_ok <<~'RUBY'
    reader, writer = IO.pipe
    buffers = Array.new(50) { String.new(capacity: 4_000) }
    buffers.each_with_index do |buffer, i|
      thread = Thread.new { reader.readpartial(30, buffer) }
      Thread.pass until thread.stop?
      GC.verify_compaction_references
      writer.write("message #{i}")
      thread.join
      abort buffer unless buffer == "message #{i}"
    end
    puts "ok"
  RUBY
end

claim "Process.warmup compacts" do
  ruby_ok <<~'RUBY'
    kept = Array.new(60_000) { |i| [i] }.each_slice(11).map(&:first)
    compactions = GC.stat(:compact_count)
    Process.warmup
    abort "did not" unless GC.stat(:compact_count) == compactions + 1
    abort "lost" unless kept.each_with_index.all? { |(number), i| number == 11 * i }
    puts "ok"
  RUBY
end

claim "GC.compact works while collections are disabled, and in a finalizer" do
  ruby_ok <<~'RUBY'
    GC.disable
    count = GC.stat(:compact_count)
    GC.compact
    abort "did not" unless GC.stat(:compact_count) == count + 1
    GC.enable
    $ran = 0
    def drop = 20.times { ObjectSpace.define_finalizer(Object.new, proc { GC.compact; $ran += 1 }) }
    drop
    5.times { GC.start }
    abort "ran #{$ran}" unless $ran >= 18
    puts "ok"
  RUBY
end

claim "code compiled by YJIT goes on after its objects have moved" do
  ruby_ok <<~'RUBY', "--yjit", "--yjit-call-threshold=2"
    class Point
      ORIGIN = [0, 0]
      attr_reader :x
      def initialize(x) = (@x = x; @y = "y#{x}")
      def sum = @x + ORIGIN.size + @y.size
      def text = "point #{@x}"
    end
    points = Array.new(500) { |i| Point.new(i) }
    expected = points.map { [_1.sum, _1.text, _1.x] }
    12.times do |round|
      abort "round #{round}" unless points.map { [_1.sum, _1.text, _1.x] } == expected
      GC.verify_compaction_references
    end
    puts "ok"
  RUBY
end

claim "a child forked after a compaction compacts on its own" do
  ruby_ok <<~'RUBY'
    kept = Array.new(20_000) { |i| "kept #{i}" }
    GC.compact
    pid = fork do
      GC.verify_compaction_references
      exit!(kept.each_with_index.all? { |text, i| text == "kept #{i}" } ? 0 : 1)
    end
    Process.wait(pid)
    abort "child" unless $?.success?
    GC.verify_compaction_references
    puts "ok" if kept.each_with_index.all? { |text, i| text == "kept #{i}" }
  RUBY
end

claim "programs run with everything moving at every collection", only: "ashlar" do
  env = stress("move-everything", "collect-every:2000", "verify", "poison")
  ruby_ok <<~'RUBY', env:, limit: 120
    require "json"
    require "set"
    require "erb"
    data = Array.new(300) { |i| { "id" => i, "tags" => ["t#{i}", "é"], "nested" => { "x" => i / 3.0 } } }
    abort "json" unless JSON.parse(JSON.generate(data)) == data
    abort "marshal" unless Marshal.load(Marshal.dump(data)) == data
    abort "sort" unless data.shuffle.sort_by { |row| row["tags"].first.size * 1_000 + row["id"] }.map { _1["id"] } == (0...300).to_a
    page = ERB.new("<% 50.times do |i| %>row <%= i %>,<% end %>").result
    abort "erb" unless page.scan(/row \d+/).size == 50
    abort "moved nothing" unless GC.stat(:compact_count) > 3 && GC.stat(:total_moved_objects) > 10_000
    abort "minor collections" unless GC.stat(:minor_gc_count).zero?
    puts "ok"
  RUBY
end

# What has an object id, or finalizers, is also in a table by address, which takes memory.
claim "compaction without memory for the tables of ids and finalizers moves what it can", only: "ashlar" do
  ruby_ok <<~'RUBY', limit: 120
    Ender = ->(_id) { }
    all = Array.new(300_000) { Object.new }
    kept = all.each_slice(25).map(&:first)
    all = nil
    GC.start
    kept.each { |object| ObjectSpace.define_finalizer(object, Ender) if object.object_id % 16 == 0 }
    ids = kept.map(&:object_id)
    status = ->(name) { File.read("/proc/self/status")[/#{name}:\s+(\d+)/, 1].to_i * 1024 }
    GC.start
    limits = { AS: "VmSize", DATA: "VmData" }
    limits.each { |name, field| Process.setrlimit(name, status.(field), Process::RLIM_INFINITY) }
    others = []
    20.times do
      2_000.times { (others << Object.new).last.object_id } # until what is left is used up
    rescue NoMemoryError
    end
    GC.compact
    limits.each_key { |name| Process.setrlimit(name, Process::RLIM_INFINITY, Process::RLIM_INFINITY) }
    abort "other ids" unless kept.map(&:object_id) == ids
    GC.compact
    abort "other ids after the second" unless kept.map(&:object_id) == ids
    kept.each { |object| ObjectSpace.undefine_finalizer(object) }
    GC.start
    puts "ok"
  RUBY
end
