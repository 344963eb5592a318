GIB = 1 << 30

claim "growing one string without end raises NoMemoryError, and the program goes on" do
  finished = ruby(<<~'RUBY', address_space: 2 * GIB, limit: 120)
    begin
      text = +"0123456789abcdef"
      loop { text << text }
    rescue NoMemoryError => error
      text = nil
      puts "rescued #{error.class}"
    end
    GC.start
    kept = Array.new(50_000) { |i| "after #{i}" }
    puts kept.each_with_index.all? { |line, i| line == "after #{i}" } ? "went on" : "lost"
  RUBY
  check_equal("rescued NoMemoryError\nwent on\n", finished.out) { finished.describe }
  check(finished.ok?) { finished.describe }
end

# The default collector ends the process in the next two, with "[FATAL] failed to allocate
# memory".
claim "growing an array of objects without end raises NoMemoryError, not an abort", only: "ashlar" do
  finished = ruby(<<~'RUBY', address_space: GIB, limit: 180)
    begin
      kept = []
      loop { kept << Array.new(500) { |i| "object number #{i} with a text too long to embed anywhere " * 20 } }
    rescue NoMemoryError
      kept = nil
      puts "rescued"
    end
    GC.start
    puts Array.new(10_000) { |i| "after #{i}" }.last
  RUBY
  check_equal("rescued\nafter 9999\n", finished.out) { finished.describe }
  check(finished.ok?) { finished.describe }
end

claim "small objects without end raise NoMemoryError, not an abort", only: "ashlar" do
  finished = ruby(<<~'RUBY', address_space: GIB, limit: 180)
    begin
      head = nil
      loop { head = [head, Object.new] }
    rescue NoMemoryError
      head = nil
      puts "rescued"
    end
    GC.start
    puts Array.new(10_000) { |i| "after #{i}" }.last
  RUBY
  check_equal("rescued\nafter 9999\n", finished.out) { finished.describe }
  check(finished.ok?) { finished.describe }
end

claim "an allocation that can never succeed raises NoMemoryError or ArgumentError at once" do
  ruby_ok <<~'RUBY', limit: 30
    [-> { "x" * (1 << 62) }, -> { Array.new(1 << 60) }, -> { "x".ljust(1 << 61) }].each do |attempt|
      attempt.call
      abort "succeeded"
    rescue NoMemoryError, ArgumentError, RangeError
    end
    puts "ok"
  RUBY
end

claim "an unrescued NoMemoryError ends the program with a message and status 1" do
  finished = ruby('text = +"0123456789abcdef"; loop { text << text }', address_space: GIB)
  check(finished.status.exited? && finished.status.exitstatus == 1) { finished.describe }
  check_match(/failed to allocate memory/, finished.err)
end

claim "a program collects instead of failing when its garbage would not fit" do
  finished = ruby(<<~'RUBY', address_space: 2 * GIB, limit: 120)
    120.times { |i| ("x" * 20_000_000)[0] = "y" }
    600.times { Array.new(5_000) { |k| "garbage #{k} " * 4 } }
    puts "ok"
  RUBY
  check_equal("ok\n", finished.out) { finished.describe }
end

# Prepended to programs: from `refuse_more` on the system gives this process no more memory.
REFUSING = <<~'RUBY'
  def data_bytes = File.read("/proc/self/status")[/VmData:\s+(\d+)/, 1].to_i * 1024
  def refuse_more(bytes = 0) = Process.setrlimit(:DATA, data_bytes + bytes, Process::RLIM_INFINITY)
  def refuse_nothing = Process.setrlimit(:DATA, Process::RLIM_INFINITY)
RUBY

REFUSED = "ashlar: the system refuses the memory of the heap; raise `ulimit -v` or `ulimit -d`"

claim "under any limit of the address space Ruby runs, or ends with one line that says what to do", only: "ashlar" do
  (20..400).step(20) do |mib|
    finished = ruby("puts Array.new(10_000) { |i| i.to_s }.size", "--disable-gems", address_space: mib << 20)
    next if finished.ok? && finished.out == "10000\n"
    check(mib <= 140) { "#{mib} MiB should be enough: #{finished.describe}" }
    check_equal(1, finished.status.exitstatus) { "#{mib} MiB: #{finished.describe}" }
    check_equal("#{REFUSED}\n", finished.err) { "#{mib} MiB" }
  end
end

claim "memory refused before the first object exists ends Ruby with one line", only: "ashlar" do
  (1..12).each do |step|
    finished = Subject.command(Subject.environment({}), ["sh", "-c", "ulimit -d #{step * 400}; exec #{Subject.ruby} -e 1"], folder:, limit: 30)
    # With so little the system's loader gives up, before Ruby has run an instruction.
    next if finished.status.exitstatus == 127 && finished.err.match?(/\A(?:cannot allocate TLS|\S+: error while loading shared libraries: ).*\n?\z/)
    check_equal(1, finished.status.exitstatus) { "#{step * 400} KiB: #{finished.describe}" }
    # A little more, and it loads Ruby and not the library, which Ruby says in a line of its own.
    not_loaded = /ruby_modular_gc_init: Shared library \S+ cannot be opened: \S+: cannot map [a-z -]+/
    check_match(/\A(\[FATAL\] failed to allocate memory|#{REFUSED}|#{not_loaded})\n\z/, finished.err)
  end
end

claim "a collection to which the system refuses all memory finds everything", only: "ashlar" do
  ruby_ok REFUSING + <<~'RUBY', limit: 180
    GC.disable
    kept = Array.new(1_000_000) { |i| [i.to_s] }
    weak = ObjectSpace::WeakMap.new
    50_000.times { |i| weak[i] = i.even? ? kept[i] : ["dies #{i}"] }
    refuse_more
    GC.enable
    3.times { GC.start; GC.start(full_mark: false) }
    refuse_nothing
    kept.each_with_index { |(text), i| abort "lost #{i}" unless text == i.to_s }
    Array.new(100_000) { |i| ["other #{i}"] } # in the cells of the dead
    50_000.times do |i|
      value = weak[i]
      abort "weak #{i}" unless i.even? ? value.equal?(kept[i]) : value.nil? || value == ["dies #{i}"]
    end
    GC.verify_internal_consistency
    puts "ok"
  RUBY
end

claim "a compaction for which there is too little memory is made, or leaves everything as it was, or the process ends with one line", only: "ashlar" do
  outcomes = [0, 0.5, 1].map do |left|
    finished = ruby("LEFT = #{left}\n#{REFUSING}" + <<~'RUBY', limit: 180)
      map = ObjectSpace::WeakMap.new
      kept = Array.new(400_000) { Object.new }.each_slice(4).map(&:first)
      kept.each { |object| map[object] = object }
      GC.start
      refuse_more
      full = []
      GC.disable
      [100_000, 2_000].each do |bytes|
        loop { full << "x" * bytes }
      rescue NoMemoryError
      end
      full.fill(nil, 0, full.size * LEFT)
      GC.enable
      moved = 0
      begin
        GC.compact
        moved = GC.latest_compact_info[:moved].values.sum
      rescue NoMemoryError
      end
      refuse_nothing
      abort "lost" unless kept.all? { |object| map[object].equal?(object) }
      count = GC.count
      GC.start
      abort "no collection any more" unless GC.count > count
      puts moved > 10_000 ? "made" : "left"
    RUBY
    ended = finished.status.exitstatus == 1 && finished.err == "ashlar: there is no memory left to go on with a collection; the process ends\n"
    check(ended || finished.ok? && finished.out.match?(/\A(made|left)\n\z/)) { finished.describe }
    ended ? "ended" : finished.out.chomp
  end
  # So that memory was out while objects moved, and was not where there was enough.
  check(outcomes.include?("ended") && outcomes.last == "made") { outcomes.inspect }
end

claim "object ids without end raise NoMemoryError, and those given before stay", only: "ashlar", ruby: "3.4" do # later ones have ids in the objects
  ruby_ok REFUSING + <<~'RUBY', limit: 180
    kept = Array.new(2_000_000) { Object.new }
    ids = Array.new(kept.size)
    given = 0
    refuse_more(4 << 20)
    begin
      kept.each { |object| ids[given] = object.object_id; given += 1 }
      abort "memory did not run out"
    rescue NoMemoryError
    end
    refuse_nothing
    abort "only #{given}" if given < 1_000
    given.times { |i| abort "changed" unless kept[i].object_id == ids[i] && ObjectSpace._id2ref(ids[i]).equal?(kept[i]) }
    abort "twice" unless kept.last(1_000_000).map(&:object_id).uniq.size == 1_000_000
    puts "ok"
  RUBY
end

claim "finalizers without end raise NoMemoryError, and each that was defined runs once", only: "ashlar" do
  ruby_ok REFUSING + <<~'RUBY', limit: 180
    ran = 0
    finalizer = proc { ran += 1 }
    objects = Array.new(2_000_000) { Object.new }
    defined = 0
    refuse_more(16 << 20)
    begin
      objects.each { |object| ObjectSpace.define_finalizer(object, finalizer); defined += 1 }
      abort "memory did not run out"
    rescue NoMemoryError
    end
    objects = nil
    # Memory is refused while the dead are found and their jobs are run.
    3.times { GC.start }
    refuse_nothing
    LAST = Object.new
    ObjectSpace.define_finalizer(LAST, proc { puts defined > 1_000 && ran == defined ? "ok" : "#{ran} of #{defined}" })
  RUBY
end

claim "files dropped while memory is refused are written out and closed", only: "ashlar" do
  ruby_ok REFUSING + <<~'RUBY', limit: 120
    most = Process.getrlimit(:NOFILE).last.clamp(..50_000)
    Process.setrlimit(:NOFILE, most)
    GC.disable
    def open_files(count)
      count.times { |i| i < 500 ? File.open("f#{i}", "w").write("text #{i}") : File.open("f0", "r") }
    end
    open_files(most - 50)
    refuse_more
    GC.enable
    3.times { GC.start }
    refuse_nothing
    left = Dir.children("/proc/self/fd").size
    abort "#{left} files open" if left > 100
    500.times { |i| abort "f#{i}" unless File.read("f#{i}") == "text #{i}" }
    puts "ok"
  RUBY
end

claim "NoMemoryError in one thread leaves the others running" do
  ruby_ok <<~'RUBY', limit: 120, address_space: 2 * GIB
    stop = false
    workers = Array.new(3) { |t| Thread.new { n = 0; n += Array.new(50) { |i| "#{t} #{i}" }.size until stop; n } }
    3.times do
      hungry = Thread.new { text = +"0123456789abcdef"; loop { text << text } }
      hungry.report_on_exception = false
      begin
        hungry.join
        abort "memory did not run out"
      rescue NoMemoryError
      end
    end
    stop = true
    abort "stood still" unless workers.map(&:value).all?(&:positive?)
    puts "ok"
  RUBY
end

claim "verification that there is no memory for is left out, and the program goes on", only: "ashlar" do
  ruby_ok "#{REFUSING}\n#{<<~'RUBY'}", limit: 120
    kept = Array.new(200_000) { |i| [i] }
    GC.config(stress: "none")
    GC.start
    refuse_more
    # What a set of all objects needs is nowhere to be had.
    GC.config(stress: "verify")
    GC.start
    GC.start(full_mark: false)
    GC.compact
    refuse_nothing
    GC.start
    abort "lost" unless kept.each_with_index.all? { |(i), at| i == at }
    puts "ok"
  RUBY
end

# Ruby disables the collector where an object must not be looked at yet.
claim "where collecting is disabled there is no collection when memory is out" do
  ruby_ok <<~'RUBY', address_space: GIB
    def collections_when_out(attempt)
      before = GC.count
      attempt.call
      abort "there was memory"
    rescue NoMemoryError
      GC.count - before
    end
    GC.disable
    in_vain = collections_when_out(-> { "x" * (1 << 46) })
    kept = []
    objects = collections_when_out(-> { loop { kept << Object.new } })
    kept.clear
    GC.enable
    abort "#{in_vain} and #{objects} collections" unless [in_vain, objects] == [0, 0]
    GC.start
    puts "ok"
  RUBY
end
