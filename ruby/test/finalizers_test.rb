claim "a finalizer runs once, after its object died, with the object's id" do
  ruby_ok <<~'RUBY'
    $seen = []
    SEE = ->(id) { $seen << id } # made here: a closure made beside the object would keep it
    ids = Array.new(500) do
      object = Object.new
      ObjectSpace.define_finalizer(object, SEE)
      object.object_id
    end
    10.times { GC.start; Array.new(1_000) { Object.new } }
    abort "ran for others" unless ($seen - ids).empty?
    abort "ran twice" unless $seen.uniq.size == $seen.size
    abort "only #{$seen.size} ran" if $seen.size < 450
    puts "ok"
  RUBY
end

claim "several finalizers of one object run in the order they were defined" do
  ruby_prints("first\nsecond\nthird\n", <<~'RUBY')
    object = Object.new
    %w[first second third].each { |name| ObjectSpace.define_finalizer(object, proc { puts name }) }
  RUBY
end

claim "an undefined finalizer does not run" do
  ruby_prints("", <<~'RUBY')
    object = Object.new
    ObjectSpace.define_finalizer(object, proc { puts "ran" })
    ObjectSpace.undefine_finalizer(object)
  RUBY
end

claim "a finalizer that raises does not keep the others from running" do
  ruby_prints("ran\n" * 200, <<~'RUBY', "-W0")
    def raising(i) = proc { $stdout.syswrite("ran\n"); raise "finalizer #{i}" if i % 3 == 0 }
    200.times { |i| ObjectSpace.define_finalizer(Object.new, raising(i)) }
    # Some run here, the rest at exit.
    5.times { GC.start; Array.new(1_000) { Object.new } }
  RUBY
end

claim "a finalizer may allocate, collect, and define further finalizers" do
  ruby_ok <<~'RUBY'
    $chain = 0
    def next_link(n) = proc { $chain += 1; Array.new(2_000) { |i| i.to_s }; GC.start; link(n - 1) if n > 1 }
    def link(n) = ObjectSpace.define_finalizer(Object.new, next_link(n))
    20.times { link(5) }
    60.times { GC.start; Array.new(500) { Object.new }; break if $chain >= 90 }
    abort "only #{$chain}" if $chain < 90
    puts "ok"
  RUBY
end

claim "clone and dup copy a finalizer" do
  ruby_prints("ran\nran\nran\n", <<~'RUBY')
    original = Object.new
    ObjectSpace.define_finalizer(original, proc { $stdout.syswrite("ran\n") })
    KEPT = [original, original.clone, original.dup]
  RUBY
end

claim "what a finalizer keeps outlives the object it belonged to" do
  ruby_ok <<~'RUBY'
    $saved = []
    def save(payload) = proc { $saved << payload }
    200.times { |i| ObjectSpace.define_finalizer(Object.new, save("payload #{i}")) }
    20.times { GC.start; Array.new(500) { Object.new } }
    abort "few" if $saved.size < 150
    $saved.each { |text| abort "torn" unless text.match?(/\Apayload \d+\z/) }
    puts "ok"
  RUBY
end

claim "a frozen object and an immediate are refused as finalizer targets" do
  ruby_prints("[FrozenError, ArgumentError, ArgumentError]\n", <<~'RUBY')
    p [Object.new.freeze, 1, :symbol].map { |object| ObjectSpace.define_finalizer(object, proc { }) rescue $!.class }
  RUBY
end

claim "finalizers that wait for the end of the program run in the order they were defined" do
  ruby_prints((0...50).to_a.join(" "), <<~'RUBY')
    KEPT = Array.new(50) { |i| Object.new.tap { |o| ObjectSpace.define_finalizer(o, proc { print i.zero? ? "" : " ", i }) } }
  RUBY
end

claim "a copy has the finalizers of its original, in Ruby 3.4 also later ones" do
  ruby_ok <<~'RUBY'
    ran = []
    a = Object.new
    ObjectSpace.define_finalizer(a, proc { ran << :first })
    b = a.dup
    ObjectSpace.define_finalizer(a, proc { ran << :later })
    LAST = Object.new
    ObjectSpace.define_finalizer(LAST, proc { puts ran.tally == { first: 2, later: RUBY_VERSION < "4" ? 2 : 1 } ? "ok" : ran.inspect })
  RUBY
end

claim "an id that only a finalizer was told is never another object's" do
  ruby_ok <<~'RUBY'
    ids = []
    finalizer = proc { |id| ids << id }
    5.times do
      1_000.times { ObjectSpace.define_finalizer(Object.new, finalizer) }
      GC.start
    end
    objects = Array.new(20_000) { Object.new }
    told = ids.dup # a last finalizer may run between any two lines
    abort "none ran" if told.size < 4_000
    abort "given again" if objects.map(&:object_id).intersect?(told) || told.uniq.size != told.size
    puts "ok"
  RUBY
end

claim "a finalizer that collects does not start another one inside itself" do
  ruby_ok <<~'RUBY'
    inside = deepest = runs = 0
    finalizer = proc do
      deepest = [deepest, inside += 1].max
      GC.start if (runs += 1) % 100 == 0
      inside -= 1
    end
    2_000.times { ObjectSpace.define_finalizer(Object.new, finalizer) }
    3.times { GC.start }
    abort "#{runs} ran, #{deepest} deep" unless runs > 1_900 && deepest == 1
    puts "ok"
  RUBY
end

claim "at the end of a program, too, a finalizer that collects does not start another one inside itself" do
  ruby_ok <<~'RUBY'
    inside = deepest = ran = 0
    finalizer = proc do
      deepest = [deepest, inside += 1].max
      ran += 1
      GC.start
      Array.new(1_000) { +"" }
      inside -= 1
    end
    FIRST = Object.new
    ObjectSpace.define_finalizer(FIRST, finalizer)
    drop = proc { 50.times { ObjectSpace.define_finalizer(Object.new, finalizer) } }
    drop.call
    LAST = Object.new
    ObjectSpace.define_finalizer(LAST, proc { puts ran == 51 && deepest == 1 ? "ok" : "#{ran} ran, #{deepest} deep" })
  RUBY
end

claim "at the end of a program a finalizer may define itself anew for its object" do
  ruby_ok <<~'RUBY'
    ran = 0
    AGAIN = Object.new
    again = proc do
      ran += 1
      # Ruby 3.4 itself would run it for ever.
      ObjectSpace.define_finalizer(AGAIN, again) if RUBY_VERSION >= "4" || ran == 1
    end
    ObjectSpace.define_finalizer(AGAIN, again)
    LAST = Object.new
    ObjectSpace.define_finalizer(LAST, proc { puts ran == 1 ? "ok" : ran })
  RUBY
end

claim "an id that a finalizer was told at the end of a program is never another object's" do
  ruby_ok <<~'RUBY'
    ids = []
    finalizer = proc { |id| ids << id }
    $kept = Array.new(1_000) { Object.new.tap { |object| ObjectSpace.define_finalizer(object, finalizer) } }
    LAST = Object.new
    ObjectSpace.define_finalizer(LAST, proc do
      $kept = nil
      3.times { GC.start }
      shared = Array.new(5_000) { Object.new }.map(&:object_id) & ids
      puts ids.size == 1_000 && shared.empty? ? "ok" : "#{ids.size} told, #{shared.size} given again"
    end)
  RUBY
end

claim "a finalizer cannot bring its object back, by id, weak reference or a walk over the heap" do
  ruby_ok <<~'RUBY', "-W0"
    require "weakref"
    class Mortal; def initialize(n) = @n = n; end
    MAP = ObjectSpace::WeakMap.new
    REFS = {}
    $revived = []
    $ran = 0
    IDS = []
    LOOK = proc do |id|
      $ran += 1
      IDS << id
      begin
        $revived << ObjectSpace._id2ref(id)
      rescue RangeError
      end
      $revived << MAP[id] if MAP.key?(id)
      $revived << REFS[id].__getobj__ if REFS[id]&.weakref_alive?
      $revived.concat(ObjectSpace.each_object(Mortal).select { |m| m.object_id == id }) if $ran % 50 == 0
    end
    def make = 500.times { |i| m = Mortal.new(i); MAP[m.object_id] = m; REFS[m.object_id] = WeakRef.new(m); ObjectSpace.define_finalizer(m, LOOK) }
    make
    5.times { GC.start; Array.new(2_000) { |i| [i.to_s] } }
    abort "only #{$ran} ran" if $ran < 450
    abort "revived #{$revived.first(3).inspect}" unless $revived.empty?
    others = Array.new(5_000) { |i| Mortal.new(i) } # in the cells of the dead
    found = IDS.filter_map { |id| ObjectSpace._id2ref(id) rescue nil }
    abort "#{found.size} ids lead to others" unless found.empty? && others.size == 5_000
    puts "ok"
  RUBY
end

claim "an object to which its finalizer refers lives until the end, and is whole when the finalizer runs" do
  ruby_prints("whole\n" * 3, <<~'RUBY', "-W0")
    class Kept; attr_reader :text; def initialize(n) = @text = "kept #{n} " * 30; end
    3.times do |n|
      kept = Kept.new(n)
      ObjectSpace.define_finalizer(kept, proc { $stdout.syswrite(kept.text == "kept #{n} " * 30 ? "whole\n" : "torn\n") })
    end
    5.times { GC.start; Array.new(5_000) { |i| i.to_s * 20 } }
  RUBY
end

claim "a finalizer that ends by any exception stops no other" do
  ruby_ok <<~'RUBY', "-W0"
    ran = 0
    ways = [-> { raise Exception, "any" }, -> { throw :nowhere }, -> { Integer("x") }, -> { [].fetch(9) }, -> { raise "frozen".freeze }]
    600.times { |i| ObjectSpace.define_finalizer(Object.new, proc { ran += 1; ways[i % ways.size].call }) }
    5.times { GC.start; Array.new(1_000) { Object.new } }
    LAST = Object.new
    ObjectSpace.define_finalizer(LAST, proc { puts ran == 600 ? "ok" : "#{ran} ran" })
  RUBY
end
