# Whether the kernel can move memory into huge pages, and has some.
HAS_HUGE_PAGES = <<~'RUBY'
  require "etc"
  version = File.read("/proc/sys/kernel/osrelease").split(".").map(&:to_i)
  free = File.exist?("/proc/buddyinfo") ? File.read("/proc/buddyinfo").lines.sum { |line| line.split.last(2).sum(&:to_i) } : 0
  setting = "/sys/kernel/mm/transparent_hugepage/enabled"
  HAS_SOME = Etc.sysconf(Etc::SC_PAGESIZE) == 4096 && (version <=> [6, 1]) >= 0 && File.exist?(setting) && !File.read(setting).include?("[never]") && free > 100 # of 2 and 4 MiB
  def mib(what) = File.read("/proc/self/smaps_rollup")[/^#{what}: *(\d+) kB/, 1].to_i / 1024
  def work(seconds)
    ended = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) + seconds
    yield while Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) < ended
  end
RUBY

claim "memory that stays full moves into huge pages, a little more of it than there was, and nothing changes", only: "ashlar" do
  ruby_ok(HAS_HUGE_PAGES + <<~'RUBY')
    kept = Array.new(100_000) { |index| [index] * 20 } # 24 MiB
    GC.start
    before = mib("Rss")
    work(3.5) { Array.new(1000) { [] } }
    huge, after = mib("AnonHugePages"), mib("Rss")
    abort "#{huge} of #{before} MiB" if HAS_SOME && huge < 4
    abort "#{before}, then #{after} MiB" if after > before * 1.1 + 4
    abort "wrong" unless kept.each_with_index.all? { |one, index| one == [index] * 20 }
    kept = nil
    GC.start
    work(1) { Array.new(1000) { [] } }
    abort "#{mib("Rss")} MiB are left of #{after}" if mib("Rss") > after - 12
    puts "ok"
  RUBY
end

claim "with huge_pages=0 nothing moves into huge pages", only: "ashlar" do
  ruby_ok(HAS_HUGE_PAGES + <<~'RUBY', env: { "ASHLAR_HUGE_PAGES" => "0" })
    kept = Array.new(100_000) { |index| [index] * 20 }
    work(3.5) { Array.new(1000) { [] } }
    abort mib("AnonHugePages").to_s if mib("AnonHugePages") > 0
    puts kept.size == 100_000 && "ok"
  RUBY
end

claim "what a forked child shares with its parent moves in neither of them, and stays shared", only: "ashlar" do
  ruby_ok(HAS_HUGE_PAGES + <<~'RUBY')
    kept = Array.new(100_000) { |index| [index] * 20 }
    GC.start
    Process.warmup
    check = lambda do |who|
      work(5) { Array.new(1000) { [] } }
      shared = mib("Shared_Dirty")
      abort "#{who}: #{shared} MiB are shared" if shared < 15
      abort "#{who}: wrong" unless kept.each_with_index.all? { |one, index| one == [index] * 20 }
    end
    out, into = IO.pipe
    child = fork do
      check.call("child")
      into.close
      out.read # until the parent has looked, too
      exit!(0)
    end
    out.close
    check.call("parent")
    into.close
    Process.wait(child)
    puts "ok" if $?.success?
  RUBY
end

claim "with huge_pages=1 all of the heap is backed by huge pages, where the system has them for programs that ask", only: "ashlar" do
  ruby_ok(<<~'RUBY', env: { "ASHLAR_HUGE_PAGES" => "1" })
    setting = "/sys/kernel/mm/transparent_hugepage/enabled"
    has_some = File.exist?(setting) && File.exist?("/proc/buddyinfo") && !File.read(setting).include?("[never]")
    kept = Array.new(500_000) { |index| [index] }
    bytes = File.read("/proc/self/smaps_rollup")[/^AnonHugePages: *(\d+) kB/, 1].to_i << 10
    free = File.read("/proc/buddyinfo").lines.sum { |line| line.split.last(2).sum(&:to_i) } # pieces of 2 and 4 MiB
    abort "#{bytes} bytes of huge pages" if has_some && free > 100 && bytes < 8 << 20
    abort "wrong" unless kept.each_with_index.all? { |one, index| one == [index] }
    GC.config(huge_pages: 0)
    GC.start
    abort GC.config.inspect if GC.config[:huge_pages] != "0"
    abort "wrong after" unless kept.sum { |one,| one } == 500_000 * 499_999 / 2
    puts "ok"
  RUBY
end
