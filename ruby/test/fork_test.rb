TIMER = "its timer thread before a fork"
# The garbage of these programs is collected before their fork.
GARBAGE_BEFORE_FORK = { "ASHLAR_SPACE_OVERHEAD" => "40", "ASHLAR_INCREMENTAL" => "0", "ASHLAR_NURSERY_MIN" => "64MiB" }.freeze

claim "a forked child and its parent both go on allocating and collecting" do
  ruby_ok <<~'RUBY'
    kept = Array.new(20_000) { |i| "kept #{i}" }
    pids = Array.new(4) do
      fork do
        50_000.times { |i| [i.to_s, { i => i }] }
        GC.start
        exit!(kept.each_with_index.all? { |text, i| text == "kept #{i}" } ? 0 : 1)
      end
    end
    50_000.times { |i| [i.to_s, { i => i }] }
    GC.start
    abort "parent lost" unless kept.each_with_index.all? { |text, i| text == "kept #{i}" }
    pids.each { |pid| Process.wait(pid); abort "child #{$?}" unless $?.success? }
    puts "ok"
  RUBY
end

claim "a fork while a collection is due finishes the collection on both sides" do
  ruby_ok <<~'RUBY', limit: 90
    60.times do |round|
      # Up to the edge of the next collection, from a different distance each round.
      count = GC.count
      junk = []
      junk << "j" * (round + 1) until GC.count > count
      (round * 37).times { "edge" + round.to_s }
      pid = fork do
        local = Array.new(3_000) { |i| "c#{i}" }
        exit!(local.each_with_index.all? { |text, i| text == "c#{i}" } ? 0 : 1)
      end
      local = Array.new(3_000) { |i| "p#{i}" }
      abort "parent" unless local.each_with_index.all? { |text, i| text == "p#{i}" }
      Process.wait(pid)
      abort "child #{$?}" unless $?.success?
    end
    puts "ok"
  RUBY
end

claim "a fork in the middle of lazy sweeping leaves parent and child whole" do
  ruby_ok <<~'RUBY'
    30.times do |round|
      kept = Array.new(2_000) { |i| "k#{round}-#{i}" }
      60_000.times { |i| "dead #{i}" }
      GC.start(immediate_sweep: false)
      pid = fork do
        60_000.times { |i| "dead #{i}" }
        GC.start
        exit!(kept.each_with_index.all? { |text, i| text == "k#{round}-#{i}" } ? 0 : 1)
      end
      Process.wait(pid)
      abort "child #{$?}" unless $?.success?
      abort "parent" unless kept.each_with_index.all? { |text, i| text == "k#{round}-#{i}" }
    end
    puts "ok"
  RUBY
end

claim "a fork while other threads allocate gives a child that works" do
  ruby_ok <<~'RUBY', limit: 90
    stop = false
    noise = Array.new(3) { Thread.new { until stop; Array.new(100) { |i| "noise #{i}" }; end } }
    30.times do
      pid = fork { a = Array.new(20_000) { |i| i.to_s }; GC.start; exit!(a[19_999] == "19999" ? 0 : 1) }
      Process.wait(pid)
      abort "child #{$?}" unless $?.success?
    end
    stop = true
    noise.each(&:join)
    puts "ok"
  RUBY
end

claim "generations of children each fork again" do
  ruby_ok <<~'RUBY'
    def descend(depth, kept)
      return kept.each_with_index.all? { |text, i| text == "g#{i}" } if depth == 0
      pid = fork { GC.start; kept.each { |text| text.dup }; exit!(descend(depth - 1, kept)) }
      Process.wait(pid)
      $?.success?
    end
    puts descend(8, Array.new(5_000) { |i| "g#{i}" }) ? "ok" : "lost"
  RUBY
end

claim "generations of children fork again, each with threads that the next one does not have" do
  ruby_ok <<~'RUBY', env: stress("verify", "poison", "collect-every:4000"), limit: 120
    def noise = Thread.new { loop { Array.new(50) { |i| "noise #{i}" * (i + 1) }.each(&:clear) } }
    def descend(depth, kept)
      return kept.each_with_index.all? { |text, i| text == "g#{i}" * 9 } if depth == 0
      Array.new(3) { noise }
      sleep 0.05
      pid = fork { GC.start; 3_000.times { |i| "x" * i }; exit!(descend(depth - 1, kept)) }
      Process.wait(pid)
      $?.success?
    end
    puts descend(4, Array.new(3_000) { |i| "g#{i}" * 9 }) ? "ok" : "lost"
  RUBY
end

claim "a fork inside at_exit and one inside a finalizer work" do
  ruby_prints("exit child\nfinalizer child\n", <<~'RUBY')
    $stdout.sync = true
    def child(text)
      pid = fork { GC.start; $stdout.syswrite("#{text} child\n"); exit!(0) }
      Process.wait(pid)
    end
    at_exit { child("exit") }
    HELD = Object.new
    ObjectSpace.define_finalizer(HELD, proc { child("finalizer") })
  RUBY
end

claim "exec, system, backticks and spawn start other programs" do
  ruby_ok <<~'RUBY'
    big = Array.new(50_000) { |i| "big #{i}" }
    abort "backticks" unless `echo from shell` == "from shell\n"
    abort "system" unless system("exit 0")
    pid = spawn("exit 3")
    Process.wait(pid)
    abort "spawn" unless $?.exitstatus == 3
    abort "lost" unless big.last == "big 49999"
    $stdout.flush
    exec("echo", "ok")
  RUBY
end

claim "Process.daemon's child collects and writes" do
  # The first process stays until the daemon has left its process group and written.
  ruby_ok <<~'RUBY'
    starter = fork do
      Process.daemon(true, true)
      20_000.times { |i| i.to_s }
      GC.start
      File.write("daemon.new", "collected")
      File.rename("daemon.new", "daemon")
    end
    Process.wait(starter)
    300.times { File.exist?("daemon") ? break : sleep(0.1) }
    puts "ok" if File.read("daemon") == "collected"
  RUBY
end

claim "a child that is forked while another thread runs a finalizer runs its own" do
  ruby_prints("child\nparent\n", <<~'RUBY', limit: 30)
    $stdout.sync = true
    began, go_on = Queue.new, Queue.new
    Thread.new do
      ObjectSpace.define_finalizer(Object.new, proc { began << true; go_on.pop })
      30.times { GC.start; Array.new(1_000) { Object.new } }
    end
    began.pop
    pid = fork do
      ran = false
      make = proc { ObjectSpace.define_finalizer(Object.new, proc { ran = true }); nil }
      20.times(&make)
      100.times { GC.start; break if ran; Array.new(100) { Object.new } }
      $stdout.syswrite("child\n") if ran
      exit!(0)
    end
    Process.wait(pid)
    go_on << true
    puts "parent"
    exit!(0)
  RUBY
end

claim "a child moves objects although another thread of its parent walks over them, and a walk of its own holds them" do
  ruby_ok <<~'RUBY', limit: 90
    class Seen; end
    $seen = Array.new(2_000) { Seen.new }
    walks, go_on = Queue.new, Queue.new
    walker = Thread.new { ObjectSpace.each_object(Seen) { walks << true; go_on.pop; break } }
    walks.pop
    moved = -> { GC.verify_compaction_references[:moved][:T_OBJECT].to_i }
    in_child = lambda do |&check|
      pid = fork { exit!(check.call ? 0 : 1) }
      Process.wait(pid)
      $?.success?
    end
    abort "moved while another thread walks" unless moved.call.zero?
    abort "the child moves nothing" unless in_child.call { moved.call >= 1_900 }
    held, pid = nil
    ObjectSpace.each_object(Seen) do
      pid = fork
      held = moved.call.zero? unless pid
      break
    end
    exit!(held && moved.call >= 1_900 ? 0 : 1) unless pid
    Process.wait(pid)
    abort "the child's own walk: #{$?}" unless $?.success?
    go_on << true
    walker.join
    abort "moved nothing afterwards" unless moved.call >= 1_900
    puts "ok"
  RUBY
end

claim "a finalizer that forks is followed by the others, in the parent and in the child" do
  ruby_prints("5 5\n", <<~'RUBY', limit: 30)
    $stdout.sync = true
    ran = 0
    child = nil
    make = proc { ObjectSpace.define_finalizer(Object.new, proc { ran += 1; child = fork if ran == 1; }) }
    reader, writer = IO.pipe
    5.times(&make)
    200.times { GC.start; Array.new(100) { Object.new }; break if ran == 5 }
    if child.nil?
      writer.write(ran.to_s)
      exit!(0)
    end
    Process.wait(child)
    writer.close
    puts "#{ran} #{reader.read}"
    exit!(0)
  RUBY
end

# Ruby's own collector forks without the VM lock: a child that comes while another Ractor has it
# waits for it for ever.
claim "children forked while other Ractors allocate and another thread runs a finalizer end", only: "ashlar" do
  ruby_ok <<~'RUBY', "-W:no-experimental", "-rtimeout", limit: 60
    def leave(object) = ObjectSpace.define_finalizer(object, SLOW)
    SLOW = proc { sleep 20 }
    leave(Object.new)
    Thread.new { GC.start }
    sleep 0.3
    3.times { Ractor.new { loop { Array.new(50) { |i| "text #{i}" * 30 } } } }
    sleep 0.2
    20.times do |n|
      child = fork { exit!(Array.new(20_000) { |i| "text #{i}" }.uniq.size == 20_000 ? 0 : 1) }
      _, status = Timeout.timeout(10) { Process.wait2(child) }
      abort "child #{n}: #{status.inspect}" unless status.success?
    rescue Timeout::Error
      Process.kill(:KILL, child)
      $stderr.puts "child #{n} never ended"
      exit!(1)
    end
    puts "ok"
    $stdout.flush
    exit!(0)
  RUBY
end

claim "garbage is collected before a fork, unless there is little of it or collecting is disabled", only: "ashlar" do
  ruby_ok <<~'RUBY', env: { "ASHLAR_SPACE_OVERHEAD" => "40", "ASHLAR_INCREMENTAL" => "0" }
    collections = lambda do
      before = [GC.count, GC.stat(:complete_gc_count)]
      Process.wait(fork { exit! })
      [GC.count, GC.stat(:complete_gc_count)].zip(before).map { |after, earlier| after - earlier }
    end
    GC.start
    GC.disable
    200_000.times { |i| "garbage #{i}" }
    found = [collections.call]
    GC.enable
    2.times { found << collections.call }
    abort found.inspect unless found == [[0, 0], [1, 1], [0, 0]]
    puts "ok"
  RUBY
end

claim "what dies in a collection before a fork is finalized by the parent alone", only: "ashlar", needs: TIMER do
  ruby_ok <<~'RUBY', env: GARBAGE_BEFORE_FORK
    reader, writer = IO.pipe
    def note(writer, n) = proc { writer.syswrite("finalizer #{n}\n") }
    def leave(writer, n)
      ObjectSpace.define_finalizer(Object.new, note(writer, n))
      file = writer.dup
      file.sync = false
      file.write("file #{n}\n")
      nil
    end
    GC.start
    10.times { |n| leave(writer, n) }
    200_000.times { |i| "garbage #{i}" }
    before = GC.count
    Process.wait(fork { writer.syswrite("child\n"); exit!(0) })
    abort "#{GC.count - before} collections" unless GC.count == before + 1
    GC.start
    found = reader.read_nonblock(10_000).lines(chomp: true).tally
    abort found.inspect unless found.size > 10 && found.values.all?(1)
    puts "ok"
  RUBY
end

claim "a fork ends though a finalizer gives the lock to a thread that never gives it back", only: "ashlar", needs: TIMER do
  ruby_prints("10\n", <<~'RUBY', env: GARBAGE_BEFORE_FORK, limit: 20)
    ran = 0
    leave = proc { ObjectSpace.define_finalizer(Object.new, proc { File.stat("/"); ran += 1 }) }
    GC.start
    10.times(&leave)
    200_000.times { |i| "garbage #{i}" }
    Thread.new { loop { } }
    Process.wait(fork { exit! })
    puts ran
    $stdout.flush
    exit!(0)
  RUBY
end

claim "finalizers that run before a fork may fork, and threads still take turns afterwards", only: "ashlar" do
  ruby_prints("ok\n", <<~'RUBY', env: GARBAGE_BEFORE_FORK, limit: 60)
    leave = proc { ObjectSpace.define_finalizer(Object.new, proc { Process.wait(fork { exit! }) }) }
    20.times do
      GC.start
      3.times(&leave)
      200_000.times { |i| "garbage #{i}" }
      Process.wait(fork { exit! })
    end
    turns = 0
    Thread.new { loop { turns += 1 } }
    before = turns
    200_000_000.times { break if turns > before }
    abort "the other thread has had no turn" unless turns > before
    abort "#{Dir.children("/proc/self/task").size} threads" unless Dir.children("/proc/self/task").size <= 4
    puts "ok"
    $stdout.flush
    exit!(0)
  RUBY
end

claim "what a finalizer prints before a fork is printed once", only: "ashlar", needs: TIMER do
  finished = ruby(<<~'RUBY', env: GARBAGE_BEFORE_FORK)
    def leave = ObjectSpace.define_finalizer(Object.new, proc { print "printed " }) && nil
    GC.start
    10.times { leave }
    200_000.times { |i| "garbage #{i}" }
    Process.wait(fork { $stdout.flush; exit! })
  RUBY
  times = finished.out.scan("printed").size
  check(times == 10) { "#{times} times: #{finished.describe}" }
end

claim "where no full marking is allowed there is none before a fork", only: "ashlar" do
  ruby_ok <<~'RUBY', env: { "ASHLAR_SPACE_OVERHEAD" => "40" }
    GC.config(rgengc_allow_full_mark: false)
    200_000.times { |i| "garbage #{i}" }
    before = GC.stat(:major_gc_count)
    Process.wait(fork { exit! })
    abort unless GC.stat(:major_gc_count) == before
    puts "ok"
  RUBY
end

claim "memory that a child shares with others does not count when its nursery is chosen", only: "ashlar" do
  # 200 MiB that all processes share are worth a large nursery to one that has them for itself.
  ruby_ok <<~'RUBY', limit: 120, env: { "ASHLAR_NURSERY_MAX" => "64MiB" }
    work = lambda do |seconds|
      until_s = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) + seconds
      kept = Array.new(20_000) { "kept" * 3 }
      count = 0
      while Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) < until_s
        10_000.times { |i| kept[i * 2 % 20_000] = [i, i.to_s] }
        count += 1
      end
      count
    end
    bytes_per_collection = lambda do
      work.call(1.5)
      GC.start
      before = [GC.count, GC.stat(:total_allocated_objects)]
      work.call(1)
      after = [GC.count, GC.stat(:total_allocated_objects)]
      (after[1] - before[1]) / [after[0] - before[0], 1].max
    end
    shared = "s" * (200 << 20)
    children = 10.times.map { fork { sleep } }
    reader, writer = IO.pipe
    worker = fork { writer.puts(bytes_per_collection.call); exit!(shared.getbyte(-1) == 115 ? 0 : 1) }
    Process.wait(worker)
    abort "worker #{$?}" unless $?.success?
    Process.kill(:KILL, *children)
    children.each { |pid| Process.wait(pid) }
    here, there = bytes_per_collection.call, Integer(reader.gets)
    abort "#{here} #{there}" unless there * 1.5 < here
    puts "ok"
  RUBY
end

claim "a child allocates nothing into what it has from its parent, until its parent has ended", only: "ashlar" do
  ruby_ok <<~'RUBY', limit: 90
    answer, said = IO.pipe
    parent = fork do
      answer.close
      kept = Array.new(200_000) { |i| [i, i] }
      kept.reject!.with_index { |_, i| i.odd? }
      GC.start
      free = GC.stat(:heap_free_slots)
      reader, writer = IO.pipe
      fork do
        told, first = nil, Process.ppid
        check = ->(what, holds) { told ||= "#{what} #{GC.stat}" unless holds }
        inherited = GC.stat(:heap_inherited_pages)
        check.call("inherited", inherited > 120 && free > 90_000)
        more = Array.new(80_000) { |i| [-i, i] }
        3.times { GC.start }
        check.call("taken over", GC.stat(:heap_inherited_pages) > inherited * 0.9)
        check.call("filled", GC.stat(:heap_free_slots) > free)
        writer.puts "go"
        sleep 0.01 while Process.ppid == first
        8.times { GC.start }
        check.call("kept", GC.stat(:heap_inherited_pages) < inherited / 2)
        pages = GC.stat(:heap_allocated_pages)
        more.concat(Array.new(80_000) { |i| [-i, i] })
        check.call("not filled", GC.stat(:heap_allocated_pages) < pages + 20)
        check.call("lost", kept.each_with_index.all? { |pair, i| pair == [2 * i, 2 * i] })
        check.call("wrong", more.each_with_index.all? { |pair, i| pair == [-(i % 80_000), i % 80_000] })
        said.puts told || "ok"
      end
      reader.gets
      exit!(true) # and the child has all for itself
    end
    said.close
    Process.wait(parent)
    puts answer.read
  RUBY
end

claim "a child that drops what its parent made gives that memory back", only: "ashlar" do
  ruby_ok <<~'RUBY', limit: 60
    def rss_mib = File.read("/proc/self/status")[/VmRSS:\s+(\d+)/, 1].to_i / 1024
    def drop = $kept = nil
    before = rss_mib
    $kept = Array.new(400_000) { |i| ["text #{i}", i.to_s * 40] }
    GC.start
    grown = rss_mib - before
    child = fork do
      inherited = GC.stat(:heap_inherited_pages)
      drop
      # An empty block stays for the CPU time that it is worth.
      GC.start while Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) < 1
      left, rest = rss_mib - before, GC.stat(:heap_inherited_pages)
      abort "#{grown} MiB, #{left} left, blocks #{inherited}, #{rest} left" unless grown > 80 && left < grown / 4 && rest < inherited / 4
      exit!(0)
    end
    Process.wait(child)
    abort unless $?.success?
    abort "lost" unless $kept.each_with_index.all? { |(text, digits), i| text == "text #{i}" && digits == i.to_s * 40 }
    puts "ok"
  RUBY
end

# Begins a program whose processes keep half of what they have from their parent, with finalizers, weak references and ids.
KEEPS = <<~'RUBY'
  $ended = []
  def text(number) = "#{number} " * 20
  def make(count)
    $kept = Array.new(count) { |i| [i, text(i)] }
    $weak, $weak_keys = ObjectSpace::WeakMap.new, ObjectSpace::WeakKeyMap.new
    $kept.each { |made| $weak[made[0]] = made; $weak_keys[made] = made[0] }
    $ids = $kept.to_h { |made| [made[0], made.object_id] }
    note = $ended.method(:push) # a block here would keep what it is for
    $kept.each { |made| ObjectSpace.define_finalizer(made, note) }
  end
  def keep_every(step) = $kept.select! { |number, _| (number % step).zero? }
  # What is kept is whole, and most of what has been dropped is gone, with its finalizer run.
  def check(who, all, step)
    kept, dropped = all.partition { |number| (number % step).zero? }
    ids = $ids.values_at(*kept)
    abort "#{who}: lost" unless $kept == kept.map { |number| [number, text(number)] }
    abort "#{who}: other ids" unless $kept.map(&:object_id) == ids
    abort "#{who}: weak references" unless $kept.all? { |made| $weak[made[0]].equal?(made) }
    abort "#{who}: weak keys" unless $kept.all? { |made| $weak_keys.getkey([made[0], text(made[0])]).equal?(made) }
    abort "#{who}: finalizers of what lives" unless ($ended & ids).empty?
    gone = dropped.size
    left = dropped.count { |number| $weak_keys.key?([number, text(number)]) }
    counts = "#{$ended.size} ended, #{$ended.uniq.size} once, #{$weak.size} weak, #{left} weak keys of #{gone}"
    abort "#{who}: #{counts}" unless $ended.uniq.size == $ended.size && $ended.size >= gone * 0.9 && $weak.size <= kept.size + gone * 0.1 && left <= gone * 0.1
  end
  # The block collects in a child, and in a child of that.
  def descend(who, all, step, &collect)
    pid = fork do
      keep_every(step)
      collect.call(step)
      check(who, all, step)
      descend("grandchild", all, 4, &collect) if step == 2
      exit!(0)
    end
    Process.wait(pid)
    abort unless $?.success?
  end
  def begin_with(count, &collect)
    make(count)
    GC.start
    descend("child", (0...count).to_a, 2, &collect)
    GC.start
    check("parent", (0...count).to_a, 1)
    puts "ok"
  end
RUBY

# With slices a collection is always going on, and verifying each would take minutes.
[%w[verify], %w[verify no-minor], %w[verify no-settling], %w[verify move-everything], %w[slice-cells:300]].each do |switches|
  claim "what a child has from its parent keeps its finalizers, weak references and ids, with #{switches.join(" and ")}", only: "ashlar" do
    ruby_ok KEEPS + <<~'RUBY', env: stress("poison", *switches), limit: 120
      begin_with(2000) do |step|
        GC.compact
        Array.new(20_000) { |i| [i, i.to_s] }
        3.times { GC.start }
        Process.warmup if step == 4
      end
    RUBY
  end
end

# Cells that move are no longer in their parent's blocks.
[%w[verify], %w[verify no-minor], %w[verify no-settling], %w[slice-cells:300]].each do |switches|
  claim "so does what stays in its parent's blocks for several collections, with #{switches.join(" and ")}", only: "ashlar" do
    ruby_ok KEEPS + <<~'RUBY', env: stress("poison", *switches), limit: 120
      begin_with(1000) do
        inherited = GC.stat(:heap_inherited_pages)
        3.times do
          2.times { Array.new(1_000) { |i| [i, i.to_s] }; GC.start(full_mark: false) }
          GC.start
          left = GC.stat(:heap_inherited_pages)
          abort "of #{inherited} blocks #{left} are still its parent's" unless left > inherited * 0.8
        end
      end
    RUBY
  end
end

# Each ends when it has forked the next one, whose memory is its own from then on.
claim "the tenth generation of children that fork each other takes no more memory than the second", only: "ashlar" do
  ruby_ok <<~'RUBY', limit: 120
    def resident_kib = File.read("/proc/self/smaps_rollup")[/^Rss:\s+(\d+)/, 1].to_i
    def read(i) = ["#{i}", "read " * (i % 60 + 10)]
    # Reads a fifth of it again, here and there: so much of what the ones before have left becomes holes.
    def work(generation)
      8.times { GC.start }
      random = Random.new(generation)
      20_000.times { random.rand($read.size).then { |i| $read[i] = read(i) } }
      GC.start
    end
    def descend(generation, report)
      work(generation)
      report.puts resident_kib
      return if generation == 10
      parent = Process.pid
      fork do
        sleep 0.01 while Process.ppid == parent
        descend(generation + 1, report)
        exit!(0)
      end
    end
    reader, writer = IO.pipe
    fork do
      $read = Array.new(100_000) { |i| read(i) }
      descend(0, writer)
      exit!(0)
    end
    writer.close
    kib = reader.readlines.map(&:to_i)
    abort kib.inspect unless kib.size == 11 && kib[10] < kib[2] * 1.2
    puts "ok"
  RUBY
end

# A thread of the parent costs the child two or three pages, its stack among them.
{ 0 => 500, 40 => 1_200 }.each do |threads, most_kib|
  claim "a child that does nothing copies at most #{most_kib} KiB, with #{threads} threads in its parent", only: "ashlar" do
    ruby_ok IN_A_CHILD + "THREADS, MOST_KIB = #{threads}, #{most_kib}\n" + <<~'RUBY'
      LOADED = Array.new(100_000) { |i| [i, i.to_s * 30] }
      # Their caches have free pieces, whose links nobody is to write.
      threads = Array.new(THREADS) do
        Thread.new { Array.new(2_000) { |i| "text " * (i % 100) }.clear; sleep }
      end
      sleep 0.01 until threads.all?(&:stop?)
      Process.warmup
      private_kib
      in_a_child do
        own = private_kib
        abort "#{own} KiB" if own > MOST_KIB
      end
    RUBY
  end
end

claim "a major collection of a child writes no states of what its parent had at a warm-up", only: "ashlar" do
  ruby_ok IN_A_CHILD + <<~'RUBY', limit: 60
    # A state takes a byte of a table, so these take 3 MiB at least.
    KEPT = Array.new(3_000_000) { |i| "kept #{i}" }
    GC.config(nursery_max: "1MiB")
    def collections(name, count)
      last = GC.stat(name) + count
      10_000.times { |i| "junk #{i}" } while GC.stat(name) < last
    end
    Process.warmup
    private_kib
    in_a_child do
      # Until its nursery and what marking itself needs are there.
      collections(:minor_gc_count, 7)
      before, full = private_kib, GC.stat(:complete_gc_count)
      GC.config(stress: "no-minor")
      collections(:major_gc_count, 3)
      grown = private_kib - before
      abort "a full collection" unless GC.stat(:complete_gc_count) == full
      abort "#{grown} KiB are copied" if grown > 1_500
    end
  RUBY
end
