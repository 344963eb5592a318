claim "Process.warmup returns true, makes survivors old and loses nothing" do
  ruby_ok <<~'RUBY'
    kept = Array.new(30_000) { |i| "kept #{i}" }
    majors = GC.stat(:major_gc_count)
    abort "result" unless Process.warmup == true
    abort "no major collection" unless GC.stat(:major_gc_count) > majors
    abort "not old" unless GC.stat(:old_objects) >= 30_000
    abort "lost" unless kept.each_with_index.all? { |text, i| text == "kept #{i}" }
    200_000.times { |i| i.to_s }
    GC.start
    abort "lost later" unless kept.each_with_index.all? { |text, i| text == "kept #{i}" }
    puts "ok"
  RUBY
end

claim "what lives at Process.warmup has settled, and what lives after a collection before a fork", only: "ashlar" do
  {
    "Process.warmup" => "Process.warmup",
    "a fork" => "abort 'no collection' unless (GC.stat(:complete_gc_count).tap { Process.wait(fork { exit!(0) }) }) < GC.stat(:complete_gc_count)",
  }.each do |name, event|
    ruby_ok <<~RUBY, env: { "ASHLAR_SPACE_OVERHEAD" => "10" }
      KEPT = Array.new(100_000) { |i| "kept \#{i}" }
      before = GC.stat(:settled_objects)
      #{event}
      settled, live = GC.stat.values_at(:settled_objects, :heap_live_slots)
      abort "after #{name} \#{settled} of \#{live} settled, before it \#{before}" unless before < settled - 30_000 && settled > live * 0.95
      puts "ok"
    RUBY
  end
end

claim "Process.warmup gives memory back to the system" do
  ruby_ok <<~'RUBY'
    rss = -> { File.read("/proc/self/status")[/VmRSS:\s+(\d+)/, 1].to_i }
    full = nil
    # What the stack still has of the junk is gone once another has been used.
    Fiber.new { junk = Array.new(300_000) { |i| "junk #{i}" * 10 }; full = rss.call; nil }.resume
    Process.warmup
    left = rss.call
    abort "#{full} kB before, #{left} kB after" unless left < full * 0.85
    puts "ok"
  RUBY
end

claim "children forked after a warmup share the parent's objects" do
  ruby_ok <<~'RUBY'
    private_kilobytes = -> { File.read("/proc/self/smaps_rollup").scan(/^Private_(?:Clean|Dirty):\s+(\d+)/).sum { _1[0].to_i } }
    KEPT = Array.new(400_000) { |i| [i, i.to_s] }
    Process.warmup
    total = File.read("/proc/self/status")[/VmRSS:\s+(\d+)/, 1].to_i
    reader, writer = IO.pipe
    pid = fork { GC.start; writer.puts(private_kilobytes.call); exit!(0) }
    Process.wait(pid)
    own = reader.gets.to_i
    abort "#{own} kB of #{total} kB private after a collection in the child" unless own < total * 0.6
    puts "ok"
  RUBY
end

claim "Process.warmup lets the program have as many cells again before it is collected, as Ruby documents" do
  ruby_ok <<~'RUBY'
    GC.start
    junk = Array.new(200_000) { Object.new }
    junk.clear
    GC.disable
    cells = -> { GC.stat(:heap_available_slots) + GC.stat(:heap_allocatable_slots) }
    cells.call
    before = cells.call
    Process.warmup
    after = cells.call
    abort "#{before} before, #{after} after" unless after == before
    abort "#{GC.stat(:heap_empty_pages)} pages kept" unless GC.stat(:heap_empty_pages) == 0
    GC.enable
    count = GC.count
    100_000.times { Object.new }
    abort "collected" unless GC.count == count
    puts "ok"
  RUBY
end

# Ruby's own collector looks at strings that another Ractor has only begun to make, and crashes.
claim "Process.warmup leaves alone what other Ractors are making", only: "ashlar" do
  ruby_ok <<~'RUBY', "-W:no-experimental"
    2.times do
      Ractor.new do
        source = "abcdefgh" * 2_000
        loop do
          200.times do |i|
            text = source.byteslice(i, 5_000 + i)
            text.setbyte(0, 97)
            copy = ((+"" << text).force_encoding("BINARY") << "\xff".b).dup.force_encoding("UTF-8")
            whole = (+"ab").force_encoding("UTF-8") << "q" * 300 << copy
            next if whole.bytesize == 5_303 + i && !whole.valid_encoding?
            $stderr.puts "torn"
            exit!(1)
          end
        end
      end
    end
    start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    Process.warmup until Process.clock_gettime(Process::CLOCK_MONOTONIC) - start > 3
    puts "ok"
    $stdout.flush
    exit!(0)
  RUBY
end
