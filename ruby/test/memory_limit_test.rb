# ASHLAR_MEMORY_LIMIT: RSS stays below it while live data fits, and the program goes on when it does not.

# Keeps a table of about LIVE MiB whose entries it replaces at random, and makes garbage beside.
TABLE = <<~'RUBY'
  def resident_mib = File.read("/proc/self/status")[/VmRSS:\s+(\d+)/, 1].to_i / 1024
  def peak_mib = File.read("/proc/self/status")[/VmHWM:\s+(\d+)/, 1].to_i / 1024
  def churn(live_mib, rounds)
    random, kept, places = Random.new(1), {}, live_mib * 350
    rounds.times do
      place = random.rand(places)
      kept[place] = ["x" * (500 + random.rand(1000)), Array.new(20) { |i| "entry #{place} #{i}" }]
      "garbage" * random.rand(300)
    end
    abort "contents" unless kept.all? { |place, (_, texts)| texts[7] == "entry #{place} 7" }
    kept
  end
RUBY

# So much garbage that only the limit keeps it small.
WASTEFUL = { "ASHLAR_SPACE_OVERHEAD" => "300" }

claim "without a limit the program takes more than the limit of the next claim", only: "ashlar" do
  ruby_ok TABLE + <<~'RUBY', env: WASTEFUL
    churn(110, 160_000)
    abort "peak #{peak_mib} MiB" unless peak_mib > 180
    abort GC.stat.inspect unless GC.stat(:memory_limit_bytes) == 0 && GC.stat(:memory_limit_collections) == 0
    puts "ok"
  RUBY
end

{ "in slices" => {},
  "in slices too short to keep up" => { "ASHLAR_SLICE_US" => "100" },
  "at once" => { "ASHLAR_INCREMENTAL" => "0" } }.each do |how, options|
  claim "a program whose live data fits stays below the limit and says that it collected for it (marking #{how})", only: "ashlar" do
    finished = ruby(TABLE + <<~'RUBY', env: WASTEFUL.merge("ASHLAR_MEMORY_LIMIT" => "160MiB").merge(options))
      churn(110, 160_000)
      abort "peak #{peak_mib} MiB" unless peak_mib <= 160
      stat = GC.stat
      abort stat.inspect unless stat[:memory_limit_bytes] == 160 << 20 && stat[:over_memory_limit] == 0
      abort "no collection for the limit" unless stat[:memory_limit_collections] > 0
      abort "resident" unless (stat[:resident_bytes] / (1 << 20) - resident_mib).abs < 20
      puts "ok"
    RUBY
    check(finished.ok? && finished.out == "ok\n" && finished.err.empty?) { finished.describe }
  end
end

{ "" => {}, ", also where the system does not say what is resident" => { "ASHLAR_STRESS" => "refuse:statm:1+" } }.each do |also, stress|
  claim "a program whose live data does not fit goes on, says so once, and does not collect all the time#{also}", only: "ashlar" do
    finished = ruby(TABLE + <<~'RUBY', env: { "ASHLAR_MEMORY_LIMIT" => "64MiB" }.merge(stress))
      kept = churn(110, 100_000)
      4.times { GC.start }
      abort "peak #{peak_mib} MiB" unless peak_mib > 64
      stat = GC.stat
      abort stat.inspect unless stat[:over_memory_limit] == 1
      abort "#{stat[:major_gc_count]} full collections" unless stat[:major_gc_count] < 80
      puts "ok" if kept
    RUBY
    check(finished.ok? && finished.out == "ok\n") { finished.describe }
    check_match(/\Aashlar: memory_limit=64 MiB: live data does not fit, [1-9]\d+ MiB .*\n\z/, finished.err)
  end
end

claim "a limit can be set while the program runs, and what is free above it goes back", only: "ashlar" do
  ruby_ok TABLE + <<~'RUBY'
    churn(110, 100_000)
    before = resident_mib
    GC.config(memory_limit: "96MiB")
    3.times { GC.start }
    abort "#{before} MiB before, #{resident_mib} MiB now" unless resident_mib < 96
    churn(20, 60_000)
    abort "#{resident_mib} MiB" unless resident_mib < 96
    puts "ok"
  RUBY
end

claim "a large buffer is preceded by a collection when it would not fit below the limit", only: "ashlar" do
  # Without a limit the peak is 294 MiB. There is room for three buffers: the stack may still
  # hold the addresses of two that are dead.
  ruby_ok TABLE + <<~'RUBY', env: { "ASHLAR_MEMORY_LIMIT" => "272MiB" }
    kept = Array.new(200) { "k" * (1 << 20) }
    60.times { buffer = "x" * (16 << 20) and buffer.getbyte(-1) }
    abort "peak #{peak_mib} MiB" unless peak_mib <= 272 && kept.size == 200
    puts "ok"
  RUBY
end

claim "a large buffer that grows in small steps near the limit is collected for by what it grows, not by what it is", only: "ashlar" do
  ruby_ok <<~'RUBY', env: { "ASHLAR_MEMORY_LIMIT" => "160MiB" }
    text = "x" * (90 << 20)
    GC.start
    before = GC.stat(:major_gc_count)
    200.times { text.insert(-2, "y" * 8192) }
    full = GC.stat(:major_gc_count) - before
    abort "#{full} full collections" unless full <= 3 && text.bytesize == (90 << 20) + 200 * 8192
    puts "ok"
  RUBY
end

claim "live data a little above the limit does not seem to fit because objects are made between it", only: "ashlar" do
  ruby_ok <<~'RUBY', env: { "ASHLAR_NURSERY_MIN" => "8MiB" }
    kept = Array.new(1_500_000) { Object.new }.each_slice(3).map(&:first)
    limit = ->(mib) { GC.config(memory_limit: "#{mib}MiB"); 3.times { GC.start } }
    limit[32]
    limit[(GC.stat(:resident_bytes) >> 20) - 1]
    seen = Array.new(5) do
      100_000.times { Object.new }
      GC.start(immediate_sweep: false)
      GC.stat(:over_memory_limit)
    end
    abort seen.inspect unless seen.all?(1) && kept.size == 500_000
    kept = nil
    3.times { GC.start }
    abort "it does not fit" unless GC.stat(:over_memory_limit) == 0
    puts "ok"
  RUBY
end

claim "where no full marking is allowed a limit that is too low brings no further collections, and GC.start does what is due", only: "ashlar" do
  ruby_ok <<~'RUBY', env: { "ASHLAR_MEMORY_LIMIT" => "64MiB" }
    GC.config(rgengc_allow_full_mark: false)
    kept = Array.new(2_000_000) { Object.new }
    before = GC.count
    3_000_000.times { Object.new }
    count = GC.count - before
    abort "#{count} collections" if count > 200
    full = GC.stat(:major_gc_count)
    GC.start(full_mark: false)
    abort "no major collection" unless GC.stat(:major_gc_count) == full + 1 && kept.size == 2_000_000
    puts "ok"
  RUBY
end

claim "without its limit live data is not said to be over it", only: "ashlar" do
  finished = ruby(<<~'RUBY')
    keep = Array.new(700_000) { |i| "kept #{i} " * 10 }
    abort "fits" unless keep.size == 700_000
    2.times do
      GC.config(memory_limit: "64MiB")
      3.times { GC.start }
      abort "under" unless GC.stat(:over_memory_limit) == 1
      GC.config(memory_limit: nil)
      abort "over no limit" unless GC.stat(:over_memory_limit) == 0
    end
    puts "ok"
  RUBY
  check(finished.ok? && finished.out == "ok\n") { finished.describe }
  # Once for each limit that was set.
  check(finished.err.scan("live data does not fit").size == 2) { finished.describe }
end

claim "forked children share what their parent loaded, and a memory limit counts each one's part of it", only: "ashlar" do
  ruby_ok <<~'RUBY', env: { "ASHLAR_MEMORY_LIMIT" => "130MiB" }
    KEPT = Array.new(450_000) { |i| "kept #{i} " * 10 }
    GC.start
    whole = File.read("/proc/self/status")[/VmRSS:\s+(\d+)/, 1].to_i / 1024
    abort "the parent has #{whole} MiB" unless (70..115).cover?(whole)
    # All four live until each has ended its work: the part of one that is left alone grows.
    (told, tell), (wait, go) = IO.pipe, IO.pipe
    children = Array.new(4) do
      fork do
        go.close
        GC.config(memory_limit: "#{whole - 10}MiB") # less than it has together with its parent
        inherited, asked_by_parent = GC.stat.values_at(:heap_inherited_pages, :memory_limit_collections)
        60.times { Array.new(20_000) { |i| "text #{i}" * 3 } }
        3.times { GC.start(full_mark: false) }
        left = GC.stat(:heap_inherited_pages)
        abort "#{left} of #{inherited} blocks are still the parent's" unless left > inherited * 0.8
        GC.start
        over, asked = GC.stat.values_at(:over_memory_limit, :memory_limit_collections)
        asked -= asked_by_parent
        abort "over the limit: #{over}; it asked for #{asked} collections" unless over == 0 && asked == 0
      ensure
        tell.puts
        wait.read
      end
    end
    4.times { told.gets }
    go.close
    children.each { |child| Process.wait(child); abort unless $?.success? }
    puts "ok"
  RUBY
end

claim "a child whose part of the memory fits does not say that it does not, though its parent's does not", only: "ashlar" do
  finished = ruby(<<~'RUBY', env: { "ASHLAR_MEMORY_LIMIT" => "64MiB" }, limit: 60)
    KEPT = Array.new(700_000) { |i| "kept #{i} " * 10 }
    3.times { GC.start }
    # All live until each has ended its work: the part of one that is left alone grows.
    (told, tell), (wait, go) = IO.pipe, IO.pipe
    4.times do
      fork do
        go.close
        200_000.times { |i| "text #{i}" * 9 }
        tell.puts "ended"
        wait.read
        exit!
      end
    end
    4.times { told.gets }
    go.close
    Process.waitall
  RUBY
  lines = finished.err.scan("live data does not fit").size
  check(lines == 1) { "#{lines} lines: #{finished.describe}" }
end
