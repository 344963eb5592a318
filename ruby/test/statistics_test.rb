# The keys the default collector has, asked of the default collector itself.
KEYS = <<~'RUBY'
  GC.start
  p stat: GC.stat.keys, stat_heap: GC.stat_heap(0).keys, latest: GC.latest_gc_info.keys, config: GC.config.keys,
    constants: GC::INTERNAL_CONSTANTS.keys, profiler: begin
      GC::Profiler.enable
      GC.start
      GC::Profiler.raw_data.first.keys
    end, methods: GC.methods(false).sort
RUBY

def keys = answer_of(ruby(KEYS))

# Those of the stock Ruby, which runs this test.
def default_keys
  answer_of(Subject.command(Subject.environment({ "RUBY_GC_LIBRARY" => nil }), [RbConfig.ruby, "-e", KEYS], folder:, limit: 60))
end

def answer_of(finished)
  check(finished.ok?) { finished.describe }
  eval(finished.out)
end

claim "GC.stat, stat_heap, latest_gc_info, config and INTERNAL_CONSTANTS have the default collector's keys" do
  default = default_keys
  ours = keys
  %i[stat stat_heap latest config constants].each do |name|
    missing = default[name] - ours[name]
    check(missing.empty?) { "#{name} lacks #{missing.inspect}" }
  end
end

claim "GC has the default collector's methods" do
  check_equal([], default_keys[:methods] - keys[:methods])
end

claim "every value of GC.stat and GC.stat_heap is an Integer that is not negative" do
  ruby_ok <<~'RUBY'
    Array.new(50_000) { |i| i.to_s * 20 }
    3.times { GC.start }
    values = GC.stat.to_a + GC.stat_heap.values.flat_map(&:to_a)
    bad = values.reject { |_, value| Integer === value && value >= 0 }
    abort bad.inspect unless bad.empty?
    puts "ok"
  RUBY
end

claim "GC.count goes up by one for each GC.start and is the sum of minor and major" do
  ruby_ok <<~'RUBY'
    GC.disable
    before = GC.stat
    3.times { GC.start }
    GC.start(full_mark: false)
    after = GC.stat
    abort "count #{after[:count] - before[:count]}" unless after[:count] - before[:count] == 4
    abort "sum" unless after[:count] == after[:minor_gc_count] + after[:major_gc_count]
    abort "majors" unless after[:major_gc_count] - before[:major_gc_count] >= 3
    abort "GC.count" unless GC.count == after[:count]
    puts "ok"
  RUBY
end

claim "allocations are counted one by one and frees follow" do
  ruby_ok <<~'RUBY'
    GC.start
    GC.disable
    key = :total_allocated_objects
    before = GC.stat(key)
    i = 0
    (Object.new; i += 1) while i < 10_000
    allocated = GC.stat(key) - before
    abort "allocated #{allocated}" unless (10_000..10_100).cover?(allocated)
    freed = GC.stat(:total_freed_objects)
    GC.enable
    3.times { GC.start }
    abort "freed" unless GC.stat(:total_freed_objects) - freed >= 9_900
    stat = GC.stat
    difference = stat[:total_allocated_objects] - stat[:total_freed_objects]
    abort "live #{difference} #{stat[:heap_live_slots]}" unless (difference - stat[:heap_live_slots]).abs <= 200
    puts "ok"
  RUBY
end

claim "live, free and available slots add up, and live ones follow what is kept" do
  ruby_ok <<~'RUBY'
    GC.start
    before = GC.stat(:heap_live_slots)
    KEPT = Array.new(50_000) { Object.new }
    GC.start
    stat = GC.stat
    grown = stat[:heap_live_slots] - before
    abort "grown #{grown}" unless (50_000..55_000).cover?(grown)
    abort "available" unless stat[:heap_available_slots] >= stat[:heap_live_slots] + stat[:heap_final_slots]
    abort "pages" unless stat[:heap_allocated_pages].positive? && stat[:heap_eden_pages].positive?
    KEPT.clear
    GC.start
    abort "not freed" unless GC.stat(:heap_live_slots) < before + 5_000
    puts "ok"
  RUBY
end

claim "objects that survive are counted as old" do
  ruby_ok <<~'RUBY'
    4.times { GC.start }
    before = GC.stat(:old_objects)
    KEPT = Array.new(20_000) { Object.new }
    5.times { GC.start }
    grown = GC.stat(:old_objects) - before
    abort "old #{grown}" unless grown >= 20_000
    puts "ok"
  RUBY
end

claim "payload bytes are counted as they are taken" do
  ruby_ok <<~'RUBY'
    GC.start
    GC.disable
    before = GC.stat(:malloc_increase_bytes)
    kept = Array.new(100) { |i| "x" * 10_000 }
    grown = GC.stat(:malloc_increase_bytes) - before
    abort "grew #{grown}" unless (1_000_000..1_500_000).cover?(grown)
    abort kept.size.to_s unless kept.size == 100
    puts "ok"
  RUBY
end

claim "collection time is measured, and can be switched off" do
  ruby_ok <<~'RUBY'
    KEPT = Array.new(200_000) { |i| [i] }
    before = GC.total_time
    5.times { GC.start }
    spent = GC.total_time - before
    abort "spent #{spent} ns" unless (1_000_000..20_000_000_000).cover?(spent)
    abort "time" unless GC.stat(:time) >= GC.total_time / 1_000_000 - 1
    GC.measure_total_time = false
    abort "flag" if GC.measure_total_time
    before = GC.total_time
    5.times { GC.start }
    abort "went on measuring" unless GC.total_time == before
    puts "ok"
  RUBY
end

claim "GC.stat_heap covers every heap, ascending in slot size, and sums to GC.stat" do
  ruby_ok <<~'RUBY'
    Array.new(10_000) { |i| "s" * (i % 600) }
    GC.start
    GC.disable
    heaps = GC.stat_heap
    sizes = heaps.values.map { _1[:slot_size] }
    abort "sizes #{sizes}" unless sizes == sizes.sort.uniq && sizes.first >= 32
    abort "count" unless heaps.size == GC::INTERNAL_CONSTANTS[:HEAP_COUNT]
    total = heaps.values.sum { _1[:total_allocated_objects] }
    abort "sum #{total} #{GC.stat(:total_allocated_objects)}" unless (GC.stat(:total_allocated_objects) - total).abs <= 5_000
    abort "one" unless GC.stat_heap(0, :slot_size) == sizes.first && GC.stat_heap(0)[:slot_size] == sizes.first
    puts "ok"
  RUBY
end

claim "unknown keys and heaps are refused with ArgumentError, other types with TypeError" do
  ruby_prints("[ArgumentError, TypeError, ArgumentError, ArgumentError, ArgumentError, TypeError]\n", <<~'RUBY')
    attempts = [-> { GC.stat(:nonsense) }, -> { GC.stat(7) }, -> { GC.stat_heap(999) }, -> { GC.stat_heap(-1) },
                -> { GC.latest_gc_info(:nonsense) }, -> { GC.latest_gc_info("x") }]
    p attempts.map { |attempt| attempt.call rescue $!.class }
  RUBY
end

claim "latest_gc_info says what began the collection" do
  ruby_ok <<~'RUBY'
    GC.start
    info = GC.latest_gc_info
    abort info.inspect unless info[:gc_by] == :method && info[:major_by] == :force && info[:immediate_sweep] == true
    abort "state" unless GC.latest_gc_info(:state) == :none
    GC.start(full_mark: false)
    abort "minor" unless GC.latest_gc_info(:major_by).nil?
    GC.stress = true
    Object.new
    GC.stress = false
    abort "stress #{GC.latest_gc_info}" unless GC.latest_gc_info(:gc_by).to_s.match?(/newobj|malloc|stress/) || GC.latest_gc_info(:major_by) == :stress
    puts "ok"
  RUBY
end

claim "while a collection marks in slices, latest_gc_info is about that one", only: "ashlar" do
  ruby_ok <<~'RUBY', env: { "ASHLAR_SLICE_US" => "100" }
    kept, info, majors = [], GC.latest_gc_info, GC.stat(:major_gc_count)
    until info[:state] == :marking && GC.stat(:major_gc_count) > majors
      majors = GC.stat(:major_gc_count) unless info[:state] == :marking
      kept << "kept" * 20
      info = GC.latest_gc_info
    end
    expected = { major_by: :oldgen, have_finalizer: false, immediate_sweep: false, weak_references_count: 0 }
    abort info.inspect unless expected <= info && %i[newobj malloc].include?(info[:gc_by])
    puts "ok"
  RUBY
end

claim "no total goes backwards, and the pages that were allocated are those that are there and those that were freed" do
  ruby_ok <<~'RUBY'
    totals = -> { GC.stat.select { |key, _| key.start_with?("total_") } }
    8.times do |round|
      kept = Array.new(300_000) { Object.new }
      kept.clear
      GC.start
      before = totals.call
      kept = Array.new(20) { |i| "x" * ((i + 1) << 19) }
      now = totals.call
      back = now.select { |key, value| value < before[key] }
      abort "round #{round}: #{back}, #{before}" unless back.empty?
      stat = GC.stat
      there = stat[:total_allocated_pages] - stat[:total_freed_pages]
      abort "#{there} of #{stat}" unless there == stat[:heap_allocated_pages]
    end
    puts "ok"
  RUBY
end

claim "GC.config switches full marks off and on" do
  ruby_ok <<~'RUBY'
    GC.config(rgengc_allow_full_mark: false)
    abort "flag" unless GC.config[:rgengc_allow_full_mark] == false
    majors = GC.stat(:major_gc_count)
    kept = []
    200_000.times { |i| kept << i.to_s if i % 3 == 0 }
    abort "major ran" unless GC.stat(:major_gc_count) == majors
    GC.config(rgengc_allow_full_mark: true)
    GC.start
    abort "no major" unless GC.stat(:major_gc_count) > majors
    begin
      GC.config(implementation: "other")
    rescue ArgumentError
      puts "ok"
    end
  RUBY
end

claim "GC.enable and disable report the state before, and a disabled collector does not run" do
  ruby_ok <<~'RUBY'
    abort "fresh" unless GC.enable == false
    abort "off" unless GC.disable == false && GC.disable == true
    count = GC.count
    300_000.times { |i| i.to_s }
    abort "ran" unless GC.count == count
    GC.start
    abort "start must run" unless GC.count > count
    abort "on" unless GC.enable == true
    puts "ok"
  RUBY
end

claim "GC::OPTS is a frozen-looking array of strings" do
  ruby_prints("true\n", "p GC::OPTS.is_a?(Array) && GC::OPTS.all?(String)")
end

claim "GC events reach a TracePoint of Ruby's own tracer" do
  ruby_ok <<~'RUBY'
    require "objspace"
    ObjectSpace.trace_object_allocations do
      before = GC.count
      made = Array.new(1_000) { Object.new }
      GC.start
      abort "generation" unless ObjectSpace.allocation_generation(made[0]) == before
    end
    puts "ok"
  RUBY
end

claim "objects of four words take one cell each where others are between the free ones" do
  ruby_ok <<~'RUBY'
    kept = Array.new(40_000) { |i| Rational(i, 7) }
    # Runs of three free cells, with one kept after each.
    kept.each_index { |i| kept[i] = nil unless i % 4 == 3 }
    GC.start
    before = GC.stat(:total_allocated_objects)
    20_000.times { |i| Rational(i, 7) }
    made = GC.stat(:total_allocated_objects) - before
    abort "#{made} cells" unless made.between?(20_000, 21_000)
    puts "ok"
  RUBY
end

claim "Ractors may read the statistics while others collect" do
  ruby_ok <<~'RUBY', "-W0"
    busy = Array.new(2) { Ractor.new { 30.times { Array.new(5_000) { |i| i.to_s * 3 } }; :done } }
    readers = Array.new(2) { Ractor.new { 300.times { GC.stat; GC.count; GC.stat_heap(0); GC.latest_gc_info; Object.new.object_id }; :done } }
    abort "lost" unless (busy + readers).map(&:value) == [:done] * 4
    puts "ok"
  RUBY
end

claim "GC.stat(:count) makes no object and looks at no object", only: "ashlar" do
  ruby_ok <<~'RUBY'
    KEPT = Array.new(1_000_000) { |i| [i] }
    GC.start
    GC.disable
    allocated = Array.new(3) { GC.stat(:count); GC.stat(:total_allocated_objects) }
    abort "allocates: #{allocated}" unless allocated[1] == allocated[2]
    clock = -> { Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) }
    started = clock.call
    10_000.times { GC.stat(:count) }
    spent = clock.call - started
    # A walk over a million objects takes more than a millisecond; 10,000 of them more than 10 seconds.
    abort "walks: #{spent} s" if spent > 2
    puts "ok"
  RUBY
end

claim "a walk over all objects finds as many as GC.stat counts, and makes none" do
  ruby_ok <<~'RUBY'
    stat, count = {}, {}
    # The first round makes what is kept for the others.
    2.times { GC.start; GC.stat(stat); ObjectSpace.count_objects(count) }
    found = [count[:TOTAL] - count[:FREE], count[:FREE]]
    puts found == stat.values_at(:heap_live_slots, :heap_free_slots) ? "ok" : "#{found}: #{stat}"
  RUBY
end
