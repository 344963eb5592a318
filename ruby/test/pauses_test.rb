# Collections in slices: what a program sees of them, and what it can do in between.

# Begins a program that allocates until a marking in slices has just begun. One that is going on
# already may be about to end.
SLICED = <<~'RUBY'
  def marking? = GC.latest_gc_info(:state) == :marking
  MORE = []
  def until_marking
    was_marking = true
    100_000.times do |n|
      MORE << Array.new(20) { |i| "more #{n} #{i}" }
      is_marking = marking?
      return if is_marking && !was_marking
      was_marking = is_marking
    end
    abort "no collection in slices began"
  end
  GC.stat(:pause_count) # the first question allocates
  GC.config(nursery_max: "1MiB", slice_us: 100) rescue abort $!.message
RUBY

# The same with a heap that takes many slices to mark.
LARGE = SLICED + <<~'RUBY'
  KEPT = Array.new(200) { |i| Array.new(2000) { |k| "#{i} #{k}" } }
  until_marking
RUBY

claim "a large heap is marked in slices, and the program runs in between", only: "ashlar" do
  ruby_ok LARGE + <<~'RUBY'
    count = GC.count
    pauses = GC.stat(:pause_count)
    parts = 0
    while marking?
      Array.new(20) { |i| "more #{i}" }
      parts += 1
    end
    slices = GC.stat(:pause_count) - pauses
    abort "#{slices} slices, #{parts} parts of the program" unless slices >= 1 && parts > 1
    abort "count" unless GC.count == count
    abort "contents" unless KEPT.each_with_index.all? { |row, i| row.each_with_index.all? { |s, k| s == "#{i} #{k}" } }
    puts "ok"
  RUBY
end

claim "what is stored while a collection is going on lives", only: "ashlar" do
  ruby_ok LARGE + <<~'RUBY'
    hash, object, struct = {}, Object.new, Struct.new(:value)
    rounds = 0
    while marking? || rounds < 3000
      rounds += 1
      KEPT[rounds % 200][rounds % 2000] = [rounds.to_s]
      hash["key #{rounds}"] = struct.new([rounds.to_s, { rounds => "#{rounds}" }])
      object.instance_variable_set("@v#{rounds % 50}", "ivar #{rounds}")
      KEPT[(rounds + 1) % 200].concat([]).push("pushed #{rounds}").pop
      KEPT[rounds % 200].rotate!(1).rotate!(-1)
    end
    2.times { GC.start }
    hash.each_with_index do |(key, value), i|
      abort key unless key == "key #{i + 1}" && value.value == [(i + 1).to_s, { i + 1 => "#{i + 1}" }]
    end
    abort "ivars" unless object.instance_variables.all? { |name| object.instance_variable_get(name).start_with?("ivar ") }
    puts "ok"
  RUBY
end

# Tables that are marked in parts, and all that moves their entries about without a
# write barrier. A slice comes with every allocation.
TABLES = <<~'RUBY'
  NUMBER = Integer(ARGV[0] || 3000)
  def texts(name) = Array.new(NUMBER) { |i| "#{name} #{i}" }
  def check(what, got, wanted)
    return if got.size == wanted.size && got.sort == wanted.sort
    abort "#{what}: #{(wanted - got).first(3)} missing, #{(got - wanted).first(3)} too much"
  end
  random = Random.new(5)
  array, wanted = texts("a"), texts("a").sort
  moves = [
    -> { array.insert(random.rand(NUMBER), array.delete_at(random.rand(NUMBER))) },
    -> { array.push(array.shift) }, -> { array.unshift(array.pop) },
    -> { array.rotate!(random.rand(NUMBER)) }, -> { array.reverse! }, -> { array.shuffle!(random: random) },
    -> { array.sort_by! { |text| text.hash } }, -> { array[0, 2] = array[0, 2].reverse },
    -> { array.concat(array.slice!(7, 30)) }, -> { array = array.dup }, -> { array.replace(array.reverse) },
  ]
  hash = texts("k").to_h { |key| [key, "v #{key}"] }
  moves += [
    -> { key, value = hash.shift; hash[key] = value },
    -> { key = hash.keys[random.rand(NUMBER)]; hash[key] = hash.delete(key) },
    -> { hash.rehash }, -> { hash.transform_values!(&:dup) }, -> { hash = hash.dup },
    -> { hash.replace(hash.to_a.reverse.to_h) }, -> { hash = hash.dup.compare_by_identity.to_a.to_h },
    -> { last = hash.to_a.last(20).to_h; hash.delete_if { |key, _| last.key?(key) }.update(last) },
  ]
  rounds = Integer(ARGV[1] || 40)
  (rounds * moves.size).times { |i| moves[i % moves.size].call }
  GC.start
  check("array", array, wanted)
  check("keys", hash.keys, texts("k"))
  check("values", hash.values, texts("k").map { |key| "v #{key}" })
  puts "ok"
RUBY

claim "large arrays and hashes keep what is in them while they are marked in parts and it moves about", only: "ashlar" do
  ruby_ok TABLES, env: stress("slice-cells:150"), limit: 120
end

claim "GC.start while a collection is going on finishes it and collects what is garbage by then", only: "ashlar" do
  ruby_ok LARGE + <<~'RUBY'
    def drop
      map = ObjectSpace::WeakMap.new
      20.times { |i| map[Object.new] = i }
      map
    end
    map = drop
    # On a busy machine the one that was going on may be over.
    (until_marking; map = drop) until marking?
    count = GC.count
    GC.start
    abort "going on" if marking?
    abort "count" unless GC.count == count + 1
    abort "#{map.size} entries" unless map.size <= 2
    puts "ok"
  RUBY
end

claim "GC.disable while a collection is going on finishes it, and nothing is collected until GC.enable", only: "ashlar" do
  ruby_ok LARGE + <<~'RUBY'
    GC.disable
    abort GC.latest_gc_info(:state).to_s unless GC.latest_gc_info(:state) == :none
    count = GC.count
    200_000.times { |i| "#{i}" }
    abort "collected" unless GC.count == count && !marking?
    GC.enable
    until_marking
    puts "ok"
  RUBY
end

claim "weak maps and finalizers work while a collection is going on", only: "ashlar" do
  ruby_ok LARGE + <<~'RUBY'
    map, keys, ended = ObjectSpace::WeakMap.new, [], 0
    3000.times do |i|
      key = "key #{i}"
      map[key] = "value #{i}"
      keys << key if i % 3 == 0
      ObjectSpace.define_finalizer(Object.new, proc { ended += 1 })
      map.delete("none")
    end
    keys.each { |key| abort key unless map[key].nil? || map[key].start_with?("value") }
    3.times { GC.start }
    abort "#{ended} finalizers" unless ended >= 2990
    abort "keys" unless keys.all? { |key| map.key?(key) || map[key].nil? }
    puts "ok"
  RUBY
end

claim "a child forked while a collection is going on ends it on its own", only: "ashlar" do
  # At this rate no garbage is worth a collection before the fork.
  ruby_ok LARGE + <<~'RUBY', env: { "ASHLAR_EXCHANGE_RATE" => "100" }
    pid = fork do
      abort "not going on in the child" unless marking?
      100_000.times { |i| "#{i}" * 3 } while marking?
      GC.start
      exit!(KEPT.flatten.size == 400_000)
    end
    100_000.times { |i| "#{i}" * 3 } while marking?
    Process.wait(pid)
    abort $?.inspect unless $?.success?
    puts "ok"
  RUBY
end

# Each slice is verified, so there is less to mark.
claim "so does one with weak references and finalizers, and each loses what is dropped and nothing else", only: "ashlar" do
  ruby_ok SLICED + <<~'RUBY', env: stress("verify", "poison"), limit: 120
    # Verifying takes so long that a collection before the fork would be worth it.
    GC.config(rgengc_allow_full_mark: false)
    $ended, $weak = [], ObjectSpace::WeakMap.new
    def make(number)
      held = [number, "held #{number}"]
      ObjectSpace.define_finalizer(held, $ended.method(:push))
      $weak[number] = held
      held
    end
    $kept = Array.new(2_000) { |number| make(number) }
    $ids = $kept.map(&:object_id)
    KEPT = Array.new(20) { |i| Array.new(2000) { |k| "#{i} #{k}" } }
    # Drops every second one of them.
    def drop_and_end
      GC.config(rgengc_allow_full_mark: true)
      $kept.select! { |number, _| number.even? }
      100_000.times { |i| "#{i}" * 3 } while marking?
      2.times { GC.start }
    end
    def check(who)
      abort "#{who}: lost" unless $kept.all? { |number, text| text == "held #{number}" } && KEPT.flatten.size == 40_000
      abort "#{who}: weak references" unless $kept.all? { |held| $weak[held[0]].equal?(held) }
      abort "#{who}: finalizers of what lives" unless ($ended & $kept.map(&:object_id)).empty? && $kept.map(&:object_id) == $ids.each_slice(2).map(&:first)
      abort "#{who}: #{$ended.size} ended, #{$weak.size} weak" unless $ended.uniq.size == $ended.size && $ended.size >= 900 && $weak.size <= 1_100
    end
    until_marking
    pid = fork do
      abort "not going on in the child" unless marking?
      drop_and_end
      check("child")
      exit!(0)
    end
    drop_and_end
    check("parent")
    Process.wait(pid)
    abort $?.inspect unless $?.success?
    puts "ok"
  RUBY
end

claim "Ractors run while a collection is going on", only: "ashlar" do
  ruby_ok LARGE + <<~'RUBY', limit: 120
    Warning[:experimental] = false
    ractors = Array.new(3) do |n|
      Ractor.new(n) do |number|
        kept = {}
        30_000.times { |i| kept[i % 500] = ["#{number} #{i}", { i => "#{i}" }] }
        kept.values.all? { |text, hash| text.start_with?("#{number} ") && hash.values == hash.keys.map(&:to_s) }
      end
    end
    20_000.times { |i| KEPT[i % 200][i % 2000] = "again #{i}" }
    abort "contents" unless ractors.all?(&:value)
    puts "ok"
  RUBY
end

claim "ASHLAR_INCREMENTAL=0 does every collection at once", only: "ashlar" do
  ruby_ok <<~'RUBY', env: { "ASHLAR_INCREMENTAL" => "0" }
    kept = Array.new(200) { |i| Array.new(2000) { |k| "#{i} #{k}" } }
    seen = 20_000.times.map { Array.new(20) { |i| "garbage #{i}" } and GC.latest_gc_info(:state) }
    abort seen.tally.inspect if seen.include?(:marking)
    abort "config" unless GC.config[:incremental] == false && kept.size == 200
    puts "ok"
  RUBY
end

claim "GC.stat tells how long the pauses were", only: "ashlar" do
  ruby_ok <<~'RUBY'
    kept = Array.new(200) { |i| Array.new(500) { |k| "#{i} #{k}" } }
    3.times { GC.start }
    stat = GC.stat
    count, total, p50, p99, max = stat.values_at(:pause_count, :pause_us_total, :pause_us_p50, :pause_us_p99, :pause_us_max)
    abort stat.inspect unless count >= 3 && p50 <= p99 && p99 <= max && max <= total + 1 && max > 0
    puts "ok" if kept
  RUBY
end

# `tally` adds to a hash what its barrier has been told of before, and enlarges the hash's
# table in between, which may be when a slice is due.
claim "what a hash gets lives, though a slice comes between the write barrier and the store", only: "ashlar" do
  ruby_ok <<~'RUBY', env: { "ASHLAR_SLICE_US" => "100", **stress("poison") }
    HASHES = Array.new(20_000)
    class Last
      include Enumerable
      attr_writer :texts
      def each = yield @texts.pop
    end
    last = Last.new
    # A table with sixteen entries is full.
    full = -> { (0...16).to_h { |n| [n, n] } }
    HASHES.map! { full.call }
    20.times do |round|
      tallied = (0...HASHES.size).to_a.sample(3_000, random: Random.new(round))
      tallied.each { |i| HASHES[i] = full.call }
      last.texts = Array.new(3_000) { |n| "text #{n} of round #{round}, which only its hash knows" }
      tallied.each { |i| last.tally(HASHES[i]) }
      60_000.times { "junk" + "!" } if round % 3 == 0
      HASHES.each do |hash|
        text, = hash.keys.last
        abort "lost: #{text.class}" unless text == 15 || (String === text && text.start_with?("text ") && text.end_with?("knows"))
      end
    end
    puts "ok"
  RUBY
end

# The hash has been old for long, so its barrier has it remembered; the collection in between
# traces it, without the new key.
claim "what an old hash gets lives, though a whole collection comes between the write barrier and the store", only: "ashlar" do
  ruby_ok <<~'RUBY', env: { "ASHLAR_INCREMENTAL" => "0", "ASHLAR_NURSERY_MIN" => "1048576", "ASHLAR_NURSERY_MAX" => "1048576", **stress("poison") }
    class Once
      include Enumerable
      attr_writer :text
      def each = yield "#{@text}, which only its hash knows"
    end
    once = Once.new
    5.times do
      # A table with 512 entries is full; the next one has it take 28 KiB.
      hashes = Array.new(1_000) { (0...512).to_h { |n| [n, n] } }
      4.times { GC.start(full_mark: false) }
      collections = GC.count
      hashes.each_with_index do |hash, n|
        once.text = n
        once.tally(hash)
      end
      abort "no collection came" if GC.count == collections
      2.times { GC.start(full_mark: false) }
      30_000.times { |n| "junk #{n} that takes the place of what is lost #{n}" }
      hashes.each_with_index do |hash, n|
        text = hash.keys.last
        abort "lost: #{n}, it has #{text}" unless text == "#{n}, which only its hash knows"
      end
    end
    puts "ok"
  RUBY
end

# The collection ends while the walk goes on, and what was free cells is strings by then.
claim "a walk that begins while a collection is going on shows objects only", only: "ashlar" do
  ruby_ok <<~'RUBY', "--disable-gems", env: { "ASHLAR_SLICE_US" => "100", "ASHLAR_NURSERY_MIN" => "16MiB" }, limit: 120
    require "objspace"
    def marking? = GC.latest_gc_info(:state) == :marking
    big = Array.new(150_000) { |i| [i.to_s] }
    3.times { GC.start }
    3.times do
      few = Array.new(30_000) { "j" * 190 }.select.with_index { |_, i| i % 40 == 0 }
      GC.start
      few = nil
      grown = []
      grown << [grown.size] until marking?
      count, strings = GC.count, nil
      ObjectSpace.each_object do |object|
        unless strings
          strings = []
          strings << "404470" * 300 while marking? && GC.count == count
          strings << "404470" * 300 while GC.stat(:fresh_bytes) < 0.9 * GC.stat(:nursery_bytes) && GC.count == count
          GC.count == count or abort "another collection began"
        end
        ObjectSpace.internal_class_of(object).hash
      end
    end
    puts "ok"
  RUBY
end
