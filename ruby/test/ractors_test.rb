# A Ractor that takes or receives has no second thread here, so it is the workers that ask for
# collections: with one, Ruby sometimes waits for ever, whichever the collector (docs/notes/ruby-faults.md).

claim "four Ractors that allocate at once each get their own answer" do
  ruby_ok <<~'RUBY', "-W:no-experimental", limit: 90
    ractors = Array.new(4) do |n|
      Ractor.new(n) do |n|
        total = 0
        30_000.times { |i| total += "item #{n} #{i}".size + [i, i].size; { i => n.to_s } }
        total
      end
    end
    expected = Array.new(4) { |n| (0...30_000).sum { |i| "item #{n} #{i}".size + 2 } }
    abort "sums differ" unless ractors.map(&:value) == expected
    puts "ok"
  RUBY
end

claim "Ractors that allocate survive collections forced from the main one" do
  ruby_ok <<~'RUBY', "-W:no-experimental", limit: 90
    ractors = Array.new(3) do |n|
      Ractor.new(n) do |n|
        kept = Array.new(3_000) { |i| "kept #{n} #{i}" }
        200.times { Array.new(200) { |i| "dropped #{i}" } }
        kept.each_with_index.all? { |text, i| text == "kept #{n} #{i}" }
      end
    end
    40.times { GC.start }
    abort "lost" unless ractors.map(&:value).all?
    puts "ok"
  RUBY
end

claim "messages between Ractors arrive whole, copied or moved" do
  ruby_ok <<~'RUBY', "-W:no-experimental"
    echo = Ractor.new(Ractor.current) { |main| loop { message = Ractor.receive; break if message == :stop; main.send(message) } }
    500.times do |i|
      data = { "key #{i}" => Array.new(20) { |k| "value #{k}" } }
      echo.send(data)
      abort "torn copy" unless Ractor.receive == data
      # Ruby 3.4 moves three words of an object, so only what is not embedded can move.
      text = "moved #{i} " * (i + 1_000)
      echo.send(text, move: true)
      abort "torn move" unless Ractor.receive == "moved #{i} " * (i + 1_000)
      GC.start if i % 50 == 0
    end
    echo.send(:stop)
    puts "ok"
  RUBY
end

claim "a hundred short Ractors leave nothing behind that breaks a later collection" do
  ruby_ok <<~'RUBY', "-W:no-experimental", limit: 90
    20.times do
      sums = Array.new(5) { |n| Ractor.new(n) { |n| Array.new(1_000) { |i| (n + i).to_s }.sum(&:size) } }.map(&:value)
      abort "sum" if sums.any?(0)
      GC.start
    end
    puts "ok"
  RUBY
end

claim "a Ractor that calls GC.start and raises reports the error to its taker" do
  ruby_ok <<~'RUBY', "-W:no-experimental"
    r = Ractor.new { Thread.current.report_on_exception = false; GC.start; raise "inside" }
    begin
      r.value
    rescue Ractor::RemoteError => error
      puts "ok" if error.cause.message == "inside"
    end
  RUBY
end

claim "what a Ractor stores into an old object lives, though another Ractor collects in the same moment", only: "ashlar" do
  finished = ruby(<<~'RUBY', "-W0", env: stress("collect-every:500", "poison"), limit: 120)
    5.times do
      ractors = Array.new(4) do |number|
        Ractor.new(number) do |n|
          200.times do |i|
            strings = Array.new(50) { |k| "#{n}#{i}#{k}" * 5 }
            object = Object.new
            ObjectSpace.define_finalizer(object, Ractor.make_shareable(proc { })) rescue nil
            GC.latest_gc_info
          end
          :done
        end
      end
      abort "lost" unless ractors.map(&:value) == [:done] * 4
    end
    puts "ok"
  RUBY
  check(finished.ok?) { finished.describe }
  check_equal("ok\n", finished.out)
end

claim "Ractors that allocate lose nothing while another one collects without end", only: "ashlar" do
  ruby_ok <<~'RUBY', "-W:no-experimental", env: stress("verify", "poison"), limit: 240
    collector = Ractor.new do
      count = 0
      GC.start(full_mark: count.odd?, immediate_sweep: (count += 1) % 3 == 0) until Ractor.receive == :stop
    end
    workers = Array.new(4) do |n|
      Ractor.new(n, collector) do |n, collector|
        kept = {}
        6_000.times do |i|
          collector.send(:collect) if i % 200 == 0
          kept["key #{n} #{i}"] = [i, "value #{i}" * (i % 9), { i => i.to_s }]
          kept.delete("key #{n} #{i / 2}") if i.even?
        end
        kept.all? { |key, (i, text, hash)| key == "key #{n} #{i}" && text == "value #{i}" * (i % 9) && hash == { i => i.to_s } }
      end
    end
    whole = workers.map(&:value)
    collector.send(:stop)
    collector.value
    puts whole.all? ? "ok" : whole.inspect
  RUBY
end

claim "what moves to another Ractor leaves its neighbours alone" do
  ruby_ok <<~'RUBY'
    Warning[:experimental] = false
    class Pair
      def initialize(left, right) = (@left, @right = left, right)
      def sum = @left + @right
    end
    Couple = Struct.new(:left, :right)
    pairs = Array.new(4_000) { |i| Pair.new(i, 1) }
    couples = Array.new(4_000) { |i| Couple.new(i, 2) }
    here = Ractor.current
    moved = (0...4_000).step(2).map do |i|
      [pairs, couples].map do |objects|
        here.send(objects[i], move: true)
        objects[i] = nil
        Ractor.receive
      end
    end
    GC.start
    moved.each_with_index { |(pair, couple), i| abort "moved" unless pair.sum == 2 * i + 1 && couple.to_a == [2 * i, 2] }
    (1...4_000).step(2) { |i| abort "left" unless pairs[i].sum == i + 1 && couples[i].to_a == [i, 2] }
    puts "ok"
  RUBY
end

{ "in slices of 100 us" => { "ASHLAR_SLICE_US" => "100" },
  "at once" => { "ASHLAR_INCREMENTAL" => "0" },
  "at every 1000th allocation, each time verified" => stress("collect-every:1000", "verify") }.each do |how, options|
  claim "Ractors that need much memory below a limit get what they ask for while another one forces collections (marking #{how})" do
    verifies = options.key?("ASHLAR_STRESS")
    ruby_ok <<~'RUBY', "-W:no-experimental", env: { "ASHLAR_MEMORY_LIMIT" => "128MiB", "ROUNDS" => verifies ? "300" : "3000" }.merge(options), limit: 120
      forcing = Ractor.new do
        count = 0
        GC.start(full_mark: (count += 1).odd?, immediate_sweep: count % 3 == 0) until Ractor.receive == :stop
      end
      workers = Array.new(4) do |n|
        Ractor.new(n, ENV["ROUNDS"].to_i, forcing) do |n, rounds, forcing|
          kept = []
          rounds.times do |i|
            forcing.send(:collect) if i % (rounds / 150) == 0 # 600 of all four
            text = "#{n} #{i} " + "x" * (900 + i * 37 % 7_000)
            text << "y" * (i % 900)
            kept << [text, text.size, i]
            kept << [+"#{n} #{i} " << "b" * (300 << 10), "#{n} #{i} ".size + (300 << 10), i] if i % 40 == 0
            room = String.new(capacity: RUBY_VERSION < "4" ? 48 << 20 : 2 << 20) # Ruby 4.0 clears all of it
            kept << [(room << "#{n} #{i} room").dup, "#{n} #{i} room".size, i]
            room.clear
            kept.shift(30) if kept.size > 120
          end
          kept.all? { |text, size, i| text.size == size && text.start_with?("#{n} #{i} ") }
        end
      end
      whole = workers.map(&:value)
      forcing.send(:stop)
      forcing.value
      puts whole.all? ? "ok" : whole.inspect
    RUBY
  end
end

claim "finalizers of an object that was moved to another Ractor run once, and the program ends", only: "ashlar" do
  ruby_ok <<~'RUBY', "-W:no-experimental", limit: 60
    $ran = Hash.new(0)
    other = Ractor.new { count = 0; count += 1 while Ractor.receive != :stop; count }
    counting = ->(name) { proc { $ran[name] += 1 } }
    finalized = ->(name) { (name * 100).tap { ObjectSpace.define_finalizer(_1, counting[name]) } }
    move = -> { 2_000.times { |i| other.send(finalized["moved #{i} "], move: true) } }
    deep = ->(n) { n == 0 ? 0 : deep[n - 1] }
    # Finalizers run in the Ractor that collects, and these are the main one's.
    GC.disable
    move.call
    other.send(:stop)
    abort "not all came" unless other.value == 2_000
    GC.enable
    deep[500]
    # Objects at the places that the moved ones have left.
    kept = Array.new(3_000) { |i| finalized["kept #{i} "] }
    3.times { GC.start }
    GC.compact
    gone = $ran.size
    kept = nil
    deep[500]
    3.times { GC.start }
    abort "#{gone} finalizers of moved objects ran" if gone < 1_900
    abort "#{$ran.size} finalizers ran" if $ran.size < 4_800
    abort "some ran twice" unless $ran.values.uniq == [1]
    puts "ok"
  RUBY
end

claim "finalizers of objects whose content was moved to another Ractor wait for the end of what is left, also when that moves", only: "ashlar" do
  ruby_ok <<~'RUBY', "-W:no-experimental", limit: 60
    ran = []
    noting = ->(i) { proc { ran << i } }
    deep = ->(n) { n == 0 ? 0 : deep[n - 1] }
    taker = Ractor.new { count = 0; count += 1 while Ractor.receive != :stop; count }
    left = Array.new(500) { |i| "left #{i} " * 40 }
    left.each_with_index { |object, i| ObjectSpace.define_finalizer(object, noting[i]) }
    left.each { |object| taker.send(object, move: true) }
    GC.verify_compaction_references
    3.times { GC.start }
    abort "#{ran.size} ran, though what is left lives" unless ran.empty? && left.size == 500
    # Objects at the places from which it has moved.
    others = Array.new(500) { |i| "other #{i} " * 40 }
    others.each_with_index { |object, i| ObjectSpace.define_finalizer(object, noting[1_000 + i]) }
    others.clear
    deep[500]
    3.times { GC.start }
    abort "#{ran.minmax} ran" if ran.any? { |i| i < 1_000 }
    left.clear
    deep[500]
    3.times { GC.start }
    abort "#{ran.size} ran" if ran.size < 950 || ran.uniq.size != ran.size
    taker.send(:stop)
    puts "ok"
  RUBY
end

claim "finalizers of objects that were moved to another Ractor before a fork run in the child when what is left dies", only: "ashlar" do
  ruby_ok <<~'RUBY', "-W:no-experimental", limit: 60
    $ran = 0
    other = Ractor.new { count = 0; count += 1 while Ractor.receive != :stop; count }
    note = proc { $ran += 1 }
    deep = ->(n) { n == 0 ? 0 : deep[n - 1] }
    left = Array.new(300) { |i| ("moved #{i} " * 40).tap { ObjectSpace.define_finalizer(_1, note) } }
    left.each { |object| other.send(object, move: true) }
    child = fork do
      abort "#{$ran} ran early" unless $ran == 0 && left.size == 300
      left.clear
      deep[500]
      3.times { GC.start }
      abort "#{$ran} ran" if $ran < 290
      exit!(true)
    end
    Process.wait(child)
    other.send(:stop)
    puts $?.success? ? "ok" : $?.inspect
  RUBY
end

claim "messages about options that Ractors get wrong at the same time are each their own", only: "ashlar" do
  ruby_ok <<~'RUBY', "-W:no-experimental"
    ractors = Array.new(4) do |n|
      Ractor.new(n) do |n|
        2_000.times.all? do |i|
          GC.config(slice_us: n)
        rescue ArgumentError => error
          error.message.start_with?("slice_us=#{n}: ")
        end
      end
    end
    puts ractors.all?(&:value) ? "ok" : "mixed up"
  RUBY
end

claim "statistics that are read while other Ractors allocate add up", only: "ashlar" do
  # A count that is off by one block of another Ractor wraps around below zero.
  ruby_ok <<~'RUBY', "-W:no-experimental", limit: 120
    workers = Array.new(3) { Ractor.new { 300_000.times { [1]; Object.new; "text".dup }; :done } }
    last = 0
    2_000.times do |i|
      stat = GC.stat
      abort "fewer allocated: #{last}, then #{stat}" if stat[:total_allocated_objects] < last
      last = stat[:total_allocated_objects]
      abort "live: #{stat}" unless stat[:heap_live_slots] + stat[:heap_free_slots] == stat[:heap_available_slots]
      abort "bytes: #{stat}" if stat[:live_bytes].to_i > 1 << 32
      GC.stat_heap.each_value { |heap| abort heap.inspect unless heap.values.all? { |value| value < 1 << 40 } }
    end
    workers.each(&:value)
    puts "ok"
  RUBY
end

claim "a walk over all objects ends, and shows objects only, while other Ractors collect" do
  # Where a walk begins, another Ractor waits to collect: what was free may be no cell any more when it is shown.
  ruby_ok <<~'RUBY', "-W:no-experimental"
    require "objspace"
    workers = Array.new(2) do
      Ractor.new do
        400.times do |i|
          Array.new(300) { |j| "string #{j}" * 40 }
          GC.start(full_mark: i % 3 == 0) if i % 5 == 0
        end
      end
    end
    100.times do
      abort "no memory" unless ObjectSpace.memsize_of_all > 0
      abort "no objects" unless ObjectSpace.each_object(&:frozen?) > 0
      abort "no sizes" unless ObjectSpace.count_objects_size[:TOTAL] > 0
    end
    workers.each(&:value)
    puts "ok"
  RUBY
end

claim "Ractors that allocate are stopped about once for each collection", only: "ashlar" do
  # Each stop wakes every Ractor up, which takes as long as sweeping some blocks.
  ruby_ok <<~'RUBY', "-W:no-experimental"
    def allocate = 500_000.times { [Object.new] }
    allocate
    before = GC.stat
    Array.new(2) { Ractor.new { allocate } }.each(&:value)
    collections, stops = %i[count pause_count].map { |name| GC.stat(name) - before[name] }
    abort "#{stops} stops for #{collections} collections" unless collections > 10 && stops <= 1.5 * collections
    puts "ok"
  RUBY
end

claim "finalizers that several Ractors give to one object each run once" do
  ruby_ok <<~'RUBY', "-W:no-experimental", limit: 60
    class Told
      def initialize(writer) = @writer = writer
      def call(_id) = @writer.syswrite(".")
    end
    SHARED = Class.new
    20.times { ObjectSpace.define_finalizer(SHARED, proc { }) }
    reader, writer = IO.pipe
    child = fork do
      reader.close
      4.times.map { Ractor.new(writer.dup) { |own| 500.times { ObjectSpace.define_finalizer(SHARED, Told.new(own)) } } }.each(&:value)
    end
    writer.close
    told = reader.read.size
    Process.wait(child)
    abort "#{$?.inspect}, #{told} finalizers ran" unless $?.success? && told == 2_000
    puts "ok"
  RUBY
end
