# What becomes of programs when the system refuses what the collector asks of it: each call
# in turn, alone and with all that follow (the switch `refuse`), and really: by a limit of the
# address space, by a filter of system calls, by memory that is locked. The answer is right,
# or NoMemoryError is raised, or Ruby ends at its start with one line.
#
# EVERY_REFUSAL=1 (make test-refusals) refuses every call; else fewer and fewer.
EVERY_REFUSAL = ENV["EVERY_REFUSAL"] == "1"

def call_after(call) = call + (EVERY_REFUSAL ? 1 : 7 * call)

# What is refused before the program has begun, and can be done without, is said in a line of its own.
REFUSED_AND_DONE_WITHOUT = /(ashlar: profile: the system refuses the memory of the profile\n|ashlar: calls of free cannot be redirected, .*\n)*/
REFUSED_AT_START = /\A#{REFUSED_AND_DONE_WITHOUT}(ashlar: the system refuses the memory of the heap; raise `ulimit -v` or `ulimit -d`|\[FATAL\] failed to allocate memory)\n\z/
# The program itself has begun.
REFUSED_LATER = /\A#{REFUSED_AND_DONE_WITHOUT}(\[FATAL\] failed to allocate memory\n|\S+: failed to allocate memory \(NoMemoryError\)\n(\s+from .*\n)*)\z/

# Prepended to programs. `work` does a bit of everything; a wrong answer ends the process with
# status 2, and `$refused` counts what could not be done. `$refusals` are the errors that say so.
REFUSALS_WORK = <<~'RUBY'
  $refused, $refusals = 0, [NoMemoryError]
  def right(what) = yield || (warn("wrong: #{what}"); exit!(2))
  def attempt
    yield
  rescue *$refusals
    $refused += 1
    nil
  end
  def text(i) = "text #{i * 7} " * (i % 9 + 1)
  def rows(from, count) = Array.new(count) { |i| [from + i, text(from + i), { from + i => (from + i).to_s }] }
  def same?(rows, from) = rows.each_with_index.all? { |(n, text, map), i| n == from + i && text == text(n) && map == { n => n.to_s } }
  KEPT = rows(0, 2_000)

  def grow
    parts = []
    10.times { |i| parts << rows(i * 2_000, 2_000) }
    large = Array.new(20_000) { |i| "large #{i} ".ljust(900, ".") }
    right("grown") { parts.each_with_index.all? { |part, i| same?(part, i * 2_000) } }
    right("large") { large.each_with_index.all? { |string, i| string.start_with?("large #{i} .") && string.size == 900 } }
    parts.first(2)
  end

  def grow_buffers
    low, high = +"", +""
    30.times { |i| low << (i % 26 + 97).chr * 400_000; high << (i % 26 + 65).chr * 270_000 }
    right("buffers") { low.size == 12_000_000 && high.size == 8_100_000 && low.count("c") == 800_000 && high[270_000 * 5] == "F" && low[-1] == "d" }
    low.replace(low[0, 300_000])
    right("shrunk") { low.count("a") == 300_000 }
  end

  def notice
    map = ObjectSpace::WeakMap.new
    500.times { |i| map[KEPT[i]] = i }
    200.times { ObjectSpace.define_finalizer(Object.new, proc {}) }
    GC.start
    right("weak") { KEPT.first(500).each_with_index.all? { |row, i| map[row] == i } }
    right("ids") { KEPT.map(&:object_id).uniq.size == KEPT.size }
  end

  def run_threads
    threads = Array.new(4) { |t| Thread.new { Thread.current.report_on_exception = false; same?(rows(t, 300), t) } }
    threads.each { |thread| right("thread") { thread.value } }
  end

  def run_child
    pid = fork do
      found = begin
        same?(KEPT, 0) && same?(rows(7, 1_000), 7) && GC.start.nil? && GC.compact && same?(KEPT, 0)
      rescue *$refusals
        true
      end
      exit!(found ? 0 : 3)
    end
    _, status = Process.wait2(pid)
    right("the child: #{status.inspect}") { status.success? }
  end

  def sample
    GC.config(profile: "on", profile_bytes: 4096)
    rows(5, 1_000)
    run_child
    GC.config(profile: "now.heap")
    right("profile") { File.binread("now.heap", 8) == "ASHLARHP" }
  ensure
    GC.config(profile: "off")
  end

  def work
    parts = attempt { grow }
    attempt { grow_buffers }
    attempt { 3.times { |i| rows(i, 1_000) }; GC.start }
    right("kept") { same?(KEPT, 0) && (parts || []).each_with_index.all? { |part, i| same?(part, i * 2_000) } }
    attempt { notice }
    attempt { run_threads }
    attempt { GC.compact }
    right("compacted") { same?(KEPT, 0) }
    attempt { 10.times { rows(3, 200); GC.start(full_mark: false) } }
    attempt { GC.config(dump: "heap.dump") }
    attempt { GC.config(dump: "heap.dump.gz") }
    attempt { sample }
    attempt { run_child }
    attempt { GC::Profiler.enable; 10.times { GC.start(full_mark: false) }; GC::Profiler.disable }
    attempt { GC.verify_compaction_references(toward: :empty) }
    right("kept to the end") { same?(KEPT, 0) }
  end
RUBY

# Runs `work` in a child for each call of a sort, from `ARGV[1]` to the first that is not made.
REFUSALS_IN_CHILDREN = REFUSALS_WORK + <<~'RUBY'
  sort, mark, every = ARGV[0], ARGV[1], ARGV[2] == "true"
  switches = GC.config[:stress]
  call = 1
  loop do
    input, output = IO.pipe
    pid = fork do
      Process.setrlimit(:CPU, 120) # a loop ends with SIGXCPU
      GC.config(stress: [*switches, "refuse:#{sort}:#{call}#{mark}"].join(","))
      work
      refused_calls = GC.config[:refused_calls]
      GC.config(stress: [*switches, "verify"].join(","))
      GC.start
      GC.start(full_mark: false)
      right("afterwards") { same?(rows(0, 5_000), 0) && same?(KEPT, 0) }
      output.puts(refused_calls)
      exit!(0)
    end
    output.close
    said = input.read
    _, status = Process.wait2(pid)
    abort "#{sort}:#{call}#{mark}: #{status.inspect}" unless status.success?
    break if said.to_i == 0
    call += every ? 1 : call
  end
  puts "ok"
RUBY

REFUSED_SORTS = %w[any mmap munmap mprotect release populate dump huge_pages statm clock memfd thread malloc].freeze
# What a collector does on the way: it asks often, so the clock is last.
REFUSED_LIMIT = EVERY_REFUSAL ? 36_000 : 900

def refuse_in_children(sort, env)
  ["", "+"].each do |mark|
    program = File.join(folder, "each.rb")
    File.write(program, REFUSALS_IN_CHILDREN)
    # Without gems a dump names half as much code: half as many calls of malloc to refuse, at the same places.
    arguments = ["--disable-gems", program, sort, mark, EVERY_REFUSAL.to_s]
    finished = ruby_command(arguments, env:, limit: REFUSED_LIMIT)
    check(finished.ok?) { finished.describe }
    check_equal("ok\n", finished.out) { finished.describe }
  end
end

REFUSED_SORTS.each do |sort|
  claim "a program to which any call of #{sort} is refused gives the right answer or raises NoMemoryError", only: "ashlar" do
    refuse_in_children(sort, {})
  end
end

claim "so does one that marks with several threads", only: "ashlar" do
  env = { "ASHLAR_INCREMENTAL" => "0", "ASHLAR_THREADS" => "3", **stress("parallel-cells:0") }
  %w[thread mprotect any].each { |sort| refuse_in_children(sort, env) }
end

claim "so does one whose malloc is the collector's", only: "module" do
  %w[any mprotect malloc].each { |sort| refuse_in_children(sort, Subject.serving_malloc) }
end

claim "a Ractor begins, and a collection is recorded, without libc's memory", only: "ashlar" do
  ruby_ok <<~'RUBY'
    Warning[:experimental] = false
    GC::Profiler.enable
    GC.config(stress: "refuse:malloc:1+")
    # More than libc's memory that its list has at first.
    made = Array.new(12) { |i| Ractor.new(i) { |number| number * 2 } }
    doubles = made.map(&:value)
    GC.start
    GC.config(stress: "none")
    abort doubles.inspect unless doubles == Array.new(12) { |i| i * 2 }
    puts "ok"
  RUBY
end

def refuse_at_start(sort, env)
  source = 'rows = Array.new(3_000) { |i| [i, i.to_s * 9] }; GC.start; puts rows.sum { |i, text| i + text.size }, GC.config[:refused_calls]'
  ["", "+"].each do |mark|
    call = 1
    loop do
      refused = "#{sort}:#{call}#{mark}"
      finished = ruby(source, "--disable-gems", env: { **env, **stress("refuse:#{refused}") })
      if finished.ok?
        sum, calls = finished.out.lines.map(&:to_i)
        check_equal(4_596_510, sum) { "#{refused}: #{finished.describe}" }
        break if calls.zero?
      else
        check_equal(1, finished.status.exitstatus) { "#{refused}: #{finished.describe}" }
        check_match(Regexp.union(REFUSED_AT_START, REFUSED_LATER), finished.err)
      end
      call = call_after(call)
    end
  end
end

REFUSED_SORTS.each do |sort|
  claim "a Ruby to which any call of #{sort} is refused from the start runs, or ends with one line", only: "ashlar" do
    refuse_at_start(sort, {})
  end
end

claim "so does one whose malloc is the collector's, or that is sampled", only: "ashlar" do
  %w[any malloc].each do |sort|
    refuse_at_start(sort, Subject.serving_malloc)
    refuse_at_start(sort, { "ASHLAR_PROFILE" => File.join(folder, "app.heap") })
  end
end

claim "an impossible refusal is answered with what is possible", only: "ashlar" do
  %w[mmap mmap:0 mmap:-1 map:1 mmap:1++ mmap:x 5].each do |value|
    finished = ruby_command(["-e", "puts :ran"], env: { "ASHLAR_STRESS" => "verify,refuse:#{value}" })
    check_equal([1, ""], [finished.status.exitstatus, finished.out]) { finished.describe }
    check_match(/\Aashlar: ASHLAR_STRESS=verify,refuse:#{Regexp.escape(value)}: refuse: none, or a system call and the number of one such as mprotect:5, .* is wanted\n\z/, finished.err)
  end
  ruby_ok <<~'RUBY'
    GC.disable # a collection asks, too
    GC.config(stress: "refuse:statm:3+")
    abort GC.config.inspect unless GC.config.values_at(:stress, :refused_calls) == ["refuse:statm:3+", 0]
    4.times { GC.stat(:resident_bytes) }
    abort GC.config.inspect unless GC.config[:refused_calls] == 2
    begin
      GC.config(stress: "refuse:statm:")
      abort "accepted"
    rescue ArgumentError => error
      abort error.message unless error.message.start_with?("stress=refuse:statm:: refuse: none")
    end
    abort GC.config.inspect unless GC.config(stress: "none")[:stress].nil?
    puts "ok"
  RUBY
end

# Errors of Ruby's own calls, which a limit refuses as well.
REFUSED_BY_LIMIT = "$refusals.push(ThreadError, Errno::ENOMEM, Errno::EAGAIN)\n"

claim "under any limit of the address space a program gives the right answer or raises NoMemoryError", only: "ashlar" do
  [{}, Subject.serving_malloc].uniq.each do |env|
    (100..700).step(EVERY_REFUSAL ? 10 : 120) do |mib|
      finished = ruby(REFUSALS_WORK + REFUSED_BY_LIMIT + "work\nputs 'ok'", "--disable-gems", env:, address_space: mib << 20, limit: 120)
      next if finished.ok? && finished.out == "ok\n"
      # Before the first step there is nobody who would rescue.
      is_clear = finished.status.exitstatus == 1 && (finished.err.match?(REFUSED_AT_START) || finished.err.match?(REFUSED_LATER))
      check(is_clear && mib < 300) { "#{mib} MiB: #{finished.describe}" }
    end
  end
end

# Source of the filter: refuse_calls.c.
def refusing_program
  program = File.join(folder, "refuse_calls")
  made = Subject.command({}, [ENV["CC"] || "cc", "-O1", "-o", program, File.join(__dir__, "refuse_calls.c")], folder:, limit: 60)
  check(made.ok?) { made.describe }
  program
end

FILTERS = [
  %w[mremap=EPERM], %w[mremap=ENOSYS], %w[madvise=EPERM], %w[madvise=ENOSYS], %w[mremap=EPERM madvise=EPERM], %w[mremap=ENOSYS madvise=ENOSYS],
  %w[madvise:23=EINVAL], # MADV_POPULATE_WRITE, before Linux 5.14
  %w[memfd_create=EPERM prctl=EPERM], %w[munmap=EPERM],
].freeze

claim "a program whose system calls are filtered gives the right answer", only: "ashlar" do
  program = refusing_program
  File.write(File.join(folder, "work.rb"), REFUSALS_WORK + "work\nputs $refused")
  FILTERS.product([{}, Subject.serving_malloc, { "ASHLAR_HUGE_PAGES" => "1" }].uniq).each do |filter, env|
    command = [program, *filter, "--", Subject.ruby, "work.rb"]
    finished = Subject.command(Subject.environment(env), command, folder:, limit: 120)
    check_equal([true, "0\n"], [finished.ok?, finished.out]) { "#{filter.join(" ")}: #{finished.describe}" }
  end
end

claim "a program whose memory is locked gives the right answer", only: "ashlar" do
  [{}, Subject.serving_malloc].uniq.each do |env|
    ruby_ok(REFUSALS_WORK + <<~'RUBY', env:, limit: 180)
      number = RUBY_PLATFORM.start_with?("aarch64") ? 230 : 151
      begin
        $VERBOSE = nil
        syscall(number, 3) # mlockall(MCL_CURRENT | MCL_FUTURE)
      rescue Errno::ENOMEM, Errno::EPERM
        # This user may not lock as much as a heap reserves, so there is nothing to claim.
        puts "ok"
        exit
      end
      work
      abort "#{$refused} refused" unless $refused == 0
      puts "ok"
    RUBY
  end
end
