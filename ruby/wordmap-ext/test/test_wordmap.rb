# frozen_string_literal: true

# Ashlar::WordMap does what a Hash sorted by key does, whatever the collector
# does meanwhile: every object it holds survives, moves with it, and is let go.
require "etc"
require "minitest/autorun"
require "objspace"
require "ashlar/wordmap"

class WordMapTest < Minitest::Test
  def filled(range = 0...2000)
    range.each_with_object(Ashlar::WordMap.new) { |i, map| map[i * 3] = "value #{i}" }
  end

  def test_it_does_what_a_sorted_hash_does
    random = Random.new(7)
    map, model = Ashlar::WordMap.new, {}
    keys = [-> { random.rand(500) }, -> { random.rand(2**62) - 2**61 }, -> { random.rand(60) * 1_000_003 + random.rand(16) }]
    20_000.times do |i|
      key = keys[i % 3].call
      if random.rand(3) > 0
        map[key] = i
        model[key] = i
      else
        assert_equal model.delete(key).inspect, map.delete(key).inspect
      end
    end
    sorted = model.sort
    assert_equal sorted, map.to_a
    assert_equal sorted.reverse, map.reverse_each.to_a
    assert_equal sorted.map(&:first), map.keys
    assert_equal model.size, map.length
    low, high = -2**60, 2**60
    assert_equal sorted.select { |k, _| (low...high).cover?(k) }, map.each_in(low...high).to_a
    assert_equal sorted.count { |k, _| k <= high }, map.count_in(..high)
    assert_equal sorted[100], map.nth(100)
    assert_equal sorted.find { |k, _| k >= 77 }, map.at_or_after(77)
    assert_equal sorted.reverse.find { |k, _| k <= 77 }, map.at_or_before(77)
  end

  def test_the_ends_of_the_keys
    map = Ashlar::WordMap.new
    [2**63 - 1, -2**63, -1, 0].each { |k| map[k] = k }
    assert_equal [-2**63, -1, 0, 2**63 - 1], map.keys
    assert_raises(RangeError) { map[2**63] }
    assert_raises(TypeError) { map["1"] }
    assert_raises(TypeError) { map[1.0] }
    assert_equal [[-1, -1], [0, 0]], map.each_in(-1...5).to_a
    assert_equal [], map.each_in(5..1).to_a
  end

  def test_absent_keys
    map = filled
    assert_nil map[1]
    refute map.key?(1)
    assert_equal :other, map.fetch(1, :other)
    assert_equal 2, map.fetch(1) { |k| k + 1 }
    assert_match(/key not found: 1/, assert_raises(KeyError) { map.fetch(1) }.message)
    map[1] = nil
    assert map.key?(1)
  end

  def test_it_may_change_while_it_is_walked_over
    map = filled(0...100)
    map.each { |k, _| k.even? ? map.delete(k) : map[k + 1] = :new }
    assert(map.all? { |k, v| k.odd? || v == :new })
  end

  def test_copies_are_apart_and_frozen_ones_stay
    map = filled(0...50)
    copy = map.dup
    assert_equal map, copy
    copy[0] = :changed
    refute_equal map, copy
    assert_raises(FrozenError) { map.freeze[1] = 2 }
    assert_raises(FrozenError) { map.clear }
    assert_equal "value 0", map[0]
  end

  def test_values_survive_every_collection
    GC.stress = true
    map = filled(0...60)
    60.times { |i| map[i] = [i, "x" * 50] }
    map.delete(5)
    GC.stress = false
    assert(map.each_in(0...60).all? { |k, v| v[0] == k })
  ensure
    GC.stress = false
  end

  # A map that is old when it gets a young value must be looked at again.
  def test_an_old_map_keeps_its_young_values
    map = Ashlar::WordMap.new
    4.times { GC.start }
    3000.times { |i| map[i] = "young #{i}" }
    GC.start(full_mark: false)
    10_000.times { "rubbish" * 3 }
    GC.start(full_mark: false)
    assert(map.all? { |k, v| v == "young #{k}" })
  end

  def test_values_move_with_compaction
    skip "this Ruby cannot compact" unless GC.respond_to?(:compact)
    map = filled
    begin
      GC.verify_compaction_references(toward: :empty, **(RUBY_VERSION >= "3.2" ? { expand_heap: true } : { double_heap: true }))
    rescue NotImplementedError
      skip "this platform or collector cannot compact"
    end
    assert(map.all? { |k, v| v == "value #{k / 3}" })
  end

  def test_values_are_let_go
    map = Ashlar::WordMap.new
    references = (0...1000).map { |i| ObjectSpace::WeakMap.new.tap { |w| (map[i] = +"let go #{i}").then { |v| w[:it] = v } } }
    map.clear
    GC.start
    assert_operator references.count { |w| w.key?(:it) }, :<, 50
  end

  def test_memory_is_told
    map = Ashlar::WordMap.new
    empty = ObjectSpace.memsize_of(map)
    map[26_314] = 1
    map[26_322] = 2
    assert_equal 32, ObjectSpace.memsize_of(map) - empty
    assert_operator filled.memsize, :>, 2000 * 8
    assert_operator filled.memsize, :<, 2000 * 12
  end

  # Nodes are no memory of malloc, so the collector sees only what it is told of.
  def test_dead_maps_are_collected_in_time
    resident = -> { File.read("/proc/self/statm").split[1].to_i * Etc.sysconf(Etc::SC_PAGESIZE) }
    GC.start
    before = resident.call
    200.times { Ashlar::WordMap.new.then { |map| 100_000.times { |i| map[i] = i } } }
    assert_operator resident.call - before, :<, 100 << 20
  end

  def test_a_map_may_contain_itself
    map, other = Array.new(2) { Ashlar::WordMap.new.tap { |m| m[1] = m; m[2] = [m] } }
    assert_equal "#<Ashlar::WordMap {1=>#<Ashlar::WordMap {...}>, 2=>[#<Ashlar::WordMap {...}>]}>", map.inspect
    assert_equal map.inspect, map.to_s
    assert map == other
    other[3] = map[3] = 4
    assert map == other
    other[3] = 5
    refute map == other
  end

  def test_it_shows_itself
    assert_equal '#<Ashlar::WordMap {-1=>:a, 4=>"b"}>', Ashlar::WordMap.new.tap { |m| m[4] = "b"; m[-1] = :a }.inspect
    assert_equal({ 1 => 2 }, Ashlar::WordMap.new.tap { |m| m[1] = 2 }.to_h)
  end
end
