# Full collections that several threads mark: the program sees nothing of it but the time.

# Keeps all sorts of objects, enough for several threads, and can check them.
SORTS = <<~'RUBY'
  class Node
    attr_accessor :a, :b, :c, :d, :e, :f, :g, :h
    def initialize(n) = (@a, @b = "node #{n}", [n, n.to_s])
  end
  Pair = Struct.new(:left, :right)
  Wide = Struct.new(*(1..40).map { |i| :"m#{i}" })
  def sorts(n)
    node = Node.new(n)
    node.instance_variable_set("@v#{n % 30}", "variable #{n}") if n % 10 == 0
    (1..40).each { |i| node.instance_variable_set("@w#{i}", "wide #{i} #{n}") } if n % 500 == 0
    long = "long #{n} " * 20
    text = "text #{n}"
    text.instance_variable_set(:@note, "note #{n}") if n % 7 == 0
    hash = { n => "value #{n}" }
    (n % 20).times { |i| hash["key #{i}"] = "#{n} #{i}" } if n % 5 == 0
    by_identity = {}.compare_by_identity
    by_identity[text] = "identity #{n}"
    [node, long[5..], text, hash, by_identity, Pair.new("left #{n}", [n]), Rational(n * 10**20, 3), Complex("#{n}".to_i, 1.5),
     ->() { text }, n % 9 == 0 ? Wide.new(*Array.new(40) { |i| "m#{i} #{n}" }) : nil, n % 50 == 0 ? Class.new { define_method(:n) { n } } : nil,
     "symbol #{n % 100}".to_sym, Array.new(n % 60) { |i| "#{n} #{i}" }, [n].each, 2**70 + n, n.to_f]
  end
  def right?(row, n)
    node, tail, text, hash, by_identity, pair, rational, complex, block, wide, klass, symbol, array, enumerator, big, float = row
    node.a == "node #{n}" && node.b == [n, n.to_s] && tail == ("long #{n} " * 20)[5..] && text == "text #{n}" &&
      (n % 7 != 0 || text.instance_variable_get(:@note) == "note #{n}") && (n % 10 != 0 || node.instance_variable_get("@v#{n % 30}") == "variable #{n}") &&
      (n % 500 != 0 || node.instance_variable_get(:@w40) == "wide 40 #{n}") && hash[n] == "value #{n}" &&
      (n % 5 != 0 || (n % 20).times.all? { |i| hash["key #{i}"] == "#{n} #{i}" }) && by_identity[text] == "identity #{n}" &&
      pair.left == "left #{n}" && pair.right == [n] && rational == Rational(n * 10**20, 3) && complex == Complex(n, 1.5) && block.call.equal?(text) &&
      (n % 9 != 0 || wide.m40 == "m39 #{n}") && (n % 50 != 0 || klass.new.n == n) && symbol == :"symbol #{n % 100}" &&
      array == Array.new(n % 60) { |i| "#{n} #{i}" } && enumerator.first == n && big == 2**70 + n && float == n
  end
  def threads = Dir.children("/proc/self/task").count { |id| File.read("/proc/self/task/#{id}/comm") == "ashlar-marker\n" }
  KEPT = Array.new(3000) { |n| sorts(n) }
  def check = KEPT.each_with_index { |row, n| right?(row, n) or abort "row #{n}" }
RUBY

MANY = { "ASHLAR_THREADS" => "4", **stress("parallel-cells:0") }.freeze

claim "objects of all sorts live through full collections that several threads mark", only: "ashlar" do
  ruby_ok SORTS + <<~'RUBY', env: MANY, limit: 120
    check
    seen = 0
    30.times do |round|
      (0...3000).step(3 + round % 5) { |n| KEPT[n] = sorts(n) }
      GC.start(full_mark: true, immediate_sweep: round.odd?)
      seen = [seen, GC.stat(:marking_threads)].max
      check if round % 3 == 0
    end
    abort "#{seen} threads" unless seen.between?(2, 4)
    abort "#{threads} exist" unless threads == 3
    abort GC.verify_internal_consistency.inspect if GC.verify_internal_consistency
    puts "ok"
  RUBY
end

claim "what is garbage is freed by full collections that several threads mark, and finalizers and weak maps hear of it", only: "ashlar" do
  ruby_ok SORTS + <<~'RUBY', env: MANY, limit: 120
    map, keys, ended = ObjectSpace::WeakMap.new, [], 0
    make = lambda do |n|
      key = "key #{n}"
      map[key] = sorts(n)
      keys << key if n % 2 == 0
      ObjectSpace.define_finalizer(Object.new, proc { ended += 1 })
    end
    2000.times(&make)
    3.times { GC.start }
    abort "#{map.size} entries" unless map.size <= 1010
    abort "#{ended} finalizers" unless ended >= 1990
    live = GC.stat(:heap_live_slots)
    KEPT.clear
    keys.clear
    3.times { GC.start }
    abort "#{live} to #{GC.stat(:heap_live_slots)}" unless GC.stat(:heap_live_slots) < live / 2
    puts "ok"
  RUBY
end

claim "marking by several threads keeps every invariant of the heap, also while objects move, free cells are poisoned or collections are many", only: "ashlar" do
  %w[poison move-everything collect-every:5000].each do |switch|
    ruby_ok SORTS.sub("3000", "400") + <<~'RUBY', env: MANY.merge(stress("parallel-cells:0", "verify", switch)), limit: 240
      def check = KEPT.each_with_index { |row, n| right?(row, n) or abort "row #{n}" }
      6.times do |round|
        (0...400).step(3 + round) { |n| KEPT[n] = sorts(n) }
        GC.start
        GC.compact if round == 3
        check
      end
      puts "ok"
    RUBY
  end
end

claim "a small heap is marked by one thread, and no other is started", only: "ashlar" do
  ruby_ok <<~'RUBY', env: { "ASHLAR_THREADS" => "4" }
    3.times { GC.start }
    abort "#{GC.stat(:marking_threads)} marked" unless GC.stat(:marking_threads) == 1
    names = Dir.children("/proc/self/task").map { |id| File.read("/proc/self/task/#{id}/comm") }
    abort names.inspect if names.include?("ashlar-marker\n")
    puts "ok"
  RUBY
end

claim "ASHLAR_THREADS=1 never starts a thread, and GC.config chooses anew", only: "ashlar" do
  ruby_ok SORTS + <<~'RUBY', env: MANY.merge("ASHLAR_THREADS" => "1")
    GC.start
    abort "started" unless threads == 0 && GC.stat(:marking_threads) == 1 && GC.config[:threads] == 1
    GC.config(threads: 3)
    5.times { GC.start }
    abort "#{threads} helpers" unless threads == 2 && GC.config[:threads] == 3
    GC.config(threads: 1)
    GC.start
    abort "marked by #{GC.stat(:marking_threads)}" unless GC.stat(:marking_threads) == 1
    check
    puts "ok"
  RUBY
end

[["ASHLAR_THREADS", "0"], %w[ASHLAR_THREADS 65], %w[ASHLAR_THREADS all], %w[ASHLAR_STRESS parallel-cells:few]].each do |name, value|
  claim "#{name}=#{value} is refused in one line", only: "ashlar" do
    finished = ruby_command(["-e", "puts :ran"], env: { name => value })
    check(!finished.timed_out && finished.status.exited? && !finished.status.exitstatus.zero?) { finished.describe }
    check_equal("", finished.out)
    check_equal(1, finished.err.lines.size) { finished.describe }
    check_match(/#{name}=#{value}: (parallel-cells: )?a whole number/, finished.err)
  end
end

claim "GC.config(threads: 0) raises, names what is allowed, and changes nothing", only: "ashlar" do
  ruby_ok <<~'RUBY', env: { "ASHLAR_THREADS" => "2" }
    begin
      GC.config(threads: 0, space_overhead: 99)
    rescue ArgumentError => error
      abort error.message unless error.message == "threads=0: a whole number from 1 to 64 is wanted"
      abort "changed" unless GC.config[:threads] == 2 && GC.config[:space_overhead] != 99
      puts "ok"
    end
  RUBY
end

claim "no helper exists across a fork, and parent, child and grandchild start their own", only: "ashlar" do
  ruby_ok SORTS + <<~'RUBY', env: MANY, limit: 120
    GC.start
    abort "parent has #{threads}" unless threads == 3
    descend = lambda do |depth|
      pid = fork do
        abort "child has #{threads}" unless threads == 0
        2.times { GC.start }
        abort "child started #{threads}" unless threads == 3
        check
        descend[depth - 1] if depth > 1
        exit!(0)
      end
      abort "parent kept #{threads}" unless threads == 0
      GC.start
      abort "parent started #{threads}" unless threads == 3
      Process.wait(pid)
      abort "child #{$?}" unless $?.success?
    end
    descend[3]
    check
    puts "ok"
  RUBY
end

claim "many forks between full collections, and forks by other threads during them, lose nothing", only: "ashlar" do
  ruby_ok SORTS + <<~'RUBY', env: MANY, limit: 240
    40.times do
      GC.start
      pid = fork { GC.start; exit!(right?(KEPT[77], 77)) }
      Process.wait(pid)
      abort "child #{$?}" unless $?.success?
    end
    done = false
    forker = Thread.new do
      30.times do
        pid = fork { GC.start; exit!(right?(KEPT[78], 78)) }
        Process.wait(pid)
        abort "child #{$?}" unless $?.success?
      end
      done = true
    end
    starter = Thread.new { system("true") or abort "true" until done }
    GC.start until done
    [forker, starter].each(&:join)
    check
    puts "ok"
  RUBY
end

claim "a process with helpers ends at once, by exit, exit!, abort, exec and a signal", only: "ashlar" do
  { "exit(3)" => 3, "exit!(4)" => 4, "abort" => 1, "exec('exit 5')" => 5, "Thread.new { exit(6) }.join" => 6, "at_exit { GC.start }; exit(7)" => 7 }.each do |ending, status|
    finished = ruby(SORTS + "GC.start; abort unless threads == 3; #{ending}", env: MANY, limit: 30)
    check(!finished.timed_out && finished.status.exitstatus == status) { ending + "\n" + finished.describe }
  end
  finished = ruby(SORTS + "GC.start; Process.kill(:TERM, $$); sleep", env: MANY, limit: 30)
  check(finished.status.termsig == Signal.list["TERM"]) { finished.describe }
end

claim "signal handlers, Process.daemon and Process::UID work beside helpers", only: "ashlar" do
  ruby_ok SORTS + <<~'RUBY', env: MANY, limit: 120
    GC.start
    heard = 0
    trap(:USR1) { heard += 1 }
    50.times { |i| Process.kill(:USR1, $$); GC.start if i % 5 == 0; sleep(0.001) }
    sleep(0.01) until heard > 0
    Process::Sys.setuid(Process.uid)
    starter = fork do
      Process.daemon(true, true)
      GC.start
      File.write("daemon.new", threads.to_s)
      File.rename("daemon.new", "daemon")
    end
    Process.wait(starter)
    300.times { File.exist?("daemon") ? break : sleep(0.1) }
    abort "daemon" unless File.read("daemon") == "3"
    check
    puts "ok"
  RUBY
end

# Apart from forks: a child forked while a Ractor ends may hang, whatever the collector
# (docs/notes/ruby-faults.md).
claim "Ractors work beside helpers", only: "ashlar" do
  ruby_ok SORTS + <<~'RUBY', env: MANY, limit: 120
    Warning[:experimental] = false
    GC.start
    ractors = Array.new(2) { |r| Ractor.new(r) { |k| a = Array.new(20_000) { |i| "#{k} #{i}" }; 3.times { GC.start }; a.each_with_index.all? { |s, i| s == "#{k} #{i}" } } }
    10.times { GC.start }
    abort "ractors" unless ractors.all?(&:value)
    check
    puts "ok"
  RUBY
end

claim "collections go on without threads that the system refuses", only: "ashlar" do
  ruby_ok SORTS + <<~'RUBY', env: MANY, limit: 120
    # Threads of the system count as processes, for anybody but root.
    if Process.uid == 0
      File.chmod(0o777, Dir.pwd)
      Process::Sys.setresuid(54321, 54321, 54321)
    end
    Process.setrlimit(:NPROC, 1, 1)
    begin
      Thread.new {}.join
      abort "the limit does not hold"
    rescue ThreadError
    end
    3.times { GC.start }
    abort "#{threads} threads, marked by #{GC.stat(:marking_threads)}" unless threads == 0 && GC.stat(:marking_threads) == 1
    check
    puts "ok"
  RUBY
end

claim "helpers are there when the library serves the whole process's malloc, and when it serves none", only: "ashlar" do
  [Subject.serving_malloc, { "ASHLAR_MALLOC" => "libc" }].each do |env|
    ruby_ok SORTS + <<~'RUBY', env: MANY.merge(env), limit: 120
      5.times do
        GC.start
        pid = fork { abort "child has #{threads}" unless threads == 0; GC.start; check; exit!(0) }
        Process.wait(pid)
        abort "child #{$?}" unless $?.success?
      end
      GC.start
      abort "#{threads}" unless threads == 3
      check
      puts "ok"
    RUBY
  end
end
