claim "GC::Profiler records each collection while it is on" do
  ruby_ok <<~'RUBY'
    abort "on at start" if GC::Profiler.enabled?
    GC.start
    abort "recorded while off" unless GC::Profiler.raw_data.to_a.empty?
    GC::Profiler.enable
    abort "not on" unless GC::Profiler.enabled?
    3.times { GC.start }
    abort "records #{GC::Profiler.raw_data.size}" unless GC::Profiler.raw_data.size == 3
    abort "time" unless Float === GC::Profiler.total_time && GC::Profiler.total_time > 0
    GC::Profiler.clear
    abort "cleared" unless GC::Profiler.raw_data.empty? && GC::Profiler.total_time == 0.0
    GC::Profiler.disable
    GC.start
    abort "recorded after off" unless GC::Profiler.raw_data.to_a.empty?
    puts "ok"
  RUBY
end

claim "its records have the default collector's fields with plausible values" do
  ruby_ok <<~'RUBY'
    GC::Profiler.enable
    KEPT = Array.new(100_000) { |i| [i] }
    GC.start
    record = GC::Profiler.raw_data.last
    wanted = %i[GC_FLAGS GC_TIME GC_INVOKE_TIME HEAP_USE_SIZE HEAP_TOTAL_SIZE HEAP_TOTAL_OBJECTS MOVED_OBJECTS GC_IS_MARKED]
    abort "lacks #{wanted - record.keys}" unless (wanted - record.keys).empty?
    abort "sizes" unless record[:HEAP_TOTAL_SIZE] >= record[:HEAP_USE_SIZE] && record[:HEAP_USE_SIZE] > 100_000 * 40
    abort "objects" unless record[:HEAP_TOTAL_OBJECTS] >= 100_000
    abort "time" unless record[:GC_TIME].between?(0, 10) && record[:GC_INVOKE_TIME] >= 0
    puts "ok"
  RUBY
end

claim "result and report write a table" do
  ruby_ok <<~'RUBY'
    GC::Profiler.enable
    2.times { GC.start }
    result = GC::Profiler.result
    abort result unless result.match?(/\AGC \d+ invokes\./) && result.lines.size >= 4
    require "stringio"
    out = StringIO.new
    GC::Profiler.report(out)
    abort "report" unless out.string.include?("invokes")
    puts "ok"
  RUBY
end

claim "MOVED_OBJECTS is what each compaction moved, and 0 for other collections" do
  ruby_ok <<~'RUBY'
    # Thinned out, so that there is something to move.
    kept = Array.new(60_000) { |i| [i.to_s * 3] }.each_slice(7).map(&:first)
    GC::Profiler.enable
    before = GC.stat(:total_moved_objects)
    GC.start
    GC.compact
    moved = GC.stat(:total_moved_objects) - before
    GC.start
    records = GC::Profiler.raw_data.map { |record| record[:MOVED_OBJECTS] }
    abort "nothing moved" unless moved > 0 && kept.size > 0
    abort "#{records} for #{moved}" unless records.sum == moved && records.first == 0 && records.last == 0
    puts "ok"
  RUBY
end
