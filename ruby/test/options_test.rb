# An option that cannot be honoured stops Ruby before the program runs, with one line that
# names the option, the value it was given and what is allowed.
IMPOSSIBLE = {
  "ASHLAR_SPACE_OVERHEAD" => %w[banana -5 0 1e999 12x],
  "ASHLAR_EXCHANGE_RATE" => %w[cheap 0 -1 1000],
  "ASHLAR_MALLOC" => %w[jemalloc 1 LIBC],
  "ASHLAR_MEMORY_LIMIT" => %w[lots -1 12QiB 0],
  "ASHLAR_HEAP_MIN" => %w[small -1 3furlongs],
  "ASHLAR_STRESS" => %w[1 verify,sparkle verify:2 slice-cells refuse:mmap]
}.freeze

IMPOSSIBLE.each do |name, values|
  values.each do |value|
    claim "#{name}=#{value} is refused in one line that names option, value and range", only: "ashlar" do
      finished = ruby_command(["-e", "puts :ran"], env: { name => value })
      check(!finished.timed_out && finished.status.exited? && !finished.status.exitstatus.zero?) { finished.describe }
      check_equal("", finished.out)
      check_equal(1, finished.err.lines.size) { finished.describe }
      check_match(/#{name}/, finished.err)
      check_match(/#{Regexp.escape(value)}/, finished.err)
    end
  end
end

claim "a switch that is set as a variable of its own stops Ruby with the line to write instead", only: "ashlar" do
  { { "ASHLAR_VERIFY" => "1" } => ["ASHLAR_VERIFY=1", "verify"], { "ASHLAR_PARALLEL_CELLS" => "0" } => ["ASHLAR_PARALLEL_CELLS=0", "parallel-cells:0"],
    { "ASHLAR_POISON" => "1", "ASHLAR_COLLECT_EVERY" => "3000", "ASHLAR_STRESS" => "verify" } =>
      ["ASHLAR_COLLECT_EVERY=3000 ASHLAR_POISON=1", "collect-every:3000,poison"] }.each do |env, (named, switches)|
    finished = ruby_command(["-e", "puts :ran"], env:)
    check_equal([1, "", "ashlar: #{named}: switches are words of ASHLAR_STRESS; write ASHLAR_STRESS=#{switches}\n"],
                [finished.status.exitstatus, finished.out, finished.err]) { finished.describe }
  end
end

claim "every option at a usual value is accepted", only: "ashlar" do
  [{ "ASHLAR_SPACE_OVERHEAD" => "80" }, { "ASHLAR_SPACE_OVERHEAD" => "400" }, { "ASHLAR_MALLOC" => "libc" }, { "ASHLAR_MEMORY_LIMIT" => "512MiB" },
   { "ASHLAR_HEAP_MIN" => "16MiB" }].each do |env|
    ruby_prints("ok\n", "Array.new(100_000) { |i| i.to_s }; GC.start; puts 'ok'", env:)
  end
end

claim "the variables that `make env` exports are no options and are ignored", only: "ashlar" do
  ruby_prints("ok\n", "puts 'ok'", env: { "ASHLAR_LIB" => "/x", "ASHLAR_GC_LIBRARY" => "x", "ASHLAR_CACHE" => "/x", "ASHLAR_RUBY_CFLAGS" => "-I/x" })
end

def collections_of(env, work = "300_000.times { |i| i.to_s }")
  finished = ruby("before = GC.count; #{work}; puts GC.count - before", env:)
  check(finished.ok?) { finished.describe }
  finished.out.to_i
end

REPLACES_STRINGS = "K = Array.new(100_000) { |i| i.to_s * 5 }; 1_000_000.times { |i| K[i % 100_000] = i.to_s * 5 }"

claim "a lower space overhead collects more often", only: "ashlar" do
  counts = %w[40 400].map { |overhead| collections_of({ "ASHLAR_SPACE_OVERHEAD" => overhead }, REPLACES_STRINGS) }
  check(counts[0] > counts[1]) { "collections at 40: #{counts[0]}, at 400: #{counts[1]}" }
end

claim "a higher exchange rate collects less often", only: "ashlar" do
  counts = %w[0.3 30].map { |rate| collections_of({ "ASHLAR_EXCHANGE_RATE" => rate }, REPLACES_STRINGS) }
  check(counts[0] > 2 * counts[1]) { "collections at 0.3: #{counts[0]}, at 30: #{counts[1]}" }
end

# Replaces much that is young and some that has settled, so that there are collections of all scopes.
COUNTS_COLLECTIONS = <<~'RUBY'
  kept = Array.new(100_000) { |i| [i.to_s * 4] }
  replaced = Array.new(20_000)
  600_000.times do |i|
    replaced[i * 7919 % replaced.size] = [i.to_s * 4]
    kept[i % kept.size] = [i.to_s * 4] if i % 10 == 0
  end
  p GC.stat.values_at(:count, :minor_gc_count, :major_gc_count, :complete_gc_count)
RUBY

# RubyGems does not allocate the same in each run. In the module a word on the stack keeps one cell more in some runs, as
# addresses differ, and that can be a collection more.
claim "with a fixed space overhead and no slices each run has the same collections, also beside a busy process", only: "inside" do
  env = { "ASHLAR_SPACE_OVERHEAD" => "20", "ASHLAR_INCREMENTAL" => "0" }
  count = lambda do
    finished = ruby(COUNTS_COLLECTIONS, "--disable-gems", env:)
    check(finished.ok?) { finished.describe }
    finished.out
  end
  counts = Array.new(4) { count.call }
  busy = Process.spawn(Subject.environment({}), Subject.ruby, "--disable-gems", "-e", "loop {}")
  begin
    counts << count.call
  ensure
    Process.kill(:KILL, busy)
    Process.wait(busy)
  end
  check_equal(1, counts.uniq.size) { counts.join }
  collections, minor, larger, full = eval(counts[0])
  # Stress switches choose scopes of their own.
  has_all_scopes = ENV["ASHLAR_STRESS"] || [minor, larger - full, full].min > 3
  check(collections == minor + larger && has_all_scopes) { counts[0] }
end

# RUBY_GC_* variables, which tune Ruby's default collector.
claim "RUBY_GC_HEAP_%d_INIT_SLOTS puts the first collection off until there are so many slots" do
  check(collections_of({}) > 1) { "300,000 strings are too few to show anything" }
  check_equal(0, collections_of({ "RUBY_GC_HEAP_0_INIT_SLOTS" => "600000" }))
end

claim "the slots of a heap that no collector but Ashlar has count by its width", only: "ashlar" do
  env = { "RUBY_GC_HEAP_0_INIT_SLOTS" => "1000", "RUBY_GC_HEAP_23_INIT_SLOTS" => "1000" }
  ruby_prints("#{1000 * 32 + 1000 * 1024}\n", "puts GC.config[:heap_init]", env:)
end

claim "RUBY_GC_MALLOC_LIMIT puts collections off that buffers would bring" do
  work = "600.times { 'x' * 50_000 }"
  check(collections_of({}, work) > 0) { "30 MB of buffers are too few to show anything" }
  check_equal(0, collections_of({ "RUBY_GC_MALLOC_LIMIT" => "90000000", "RUBY_GC_MALLOC_LIMIT_MAX" => "90000000" }, work))
end

claim "with RUBY_GC_HEAP_OLDOBJECT_LIMIT_FACTOR below 1 every collection is a full one", only: "ashlar" do
  ruby_ok <<~'RUBY', env: { "RUBY_GC_HEAP_OLDOBJECT_LIMIT_FACTOR" => "0.9" }
    300_000.times { |i| i.to_s }
    abort GC.stat.inspect unless GC.stat(:minor_gc_count) == 0 && GC.stat(:major_gc_count) > 1
    puts "ok"
  RUBY
end

claim "a line that cannot be written to standard error ends no program", only: "ashlar" do
  ruby_ok <<~'RUBY'
    require "rbconfig"
    {
      "RUBY_GC_MALLOC_LIMIT" => ["60000000", "-w", "-e", "1"],
      "ASHLAR_MEMORY_LIMIT" => ["32MiB", "-e", <<~'PROGRAM'],
        kept = Array.new(500_000) { ["x" * 100] }
        4.times { GC.start }
        exit kept.size == 500_000 && GC.stat(:over_memory_limit) == 1
      PROGRAM
      "ASHLAR_PROFILE" => ["profiles/it.heap", "-e", "Dir.rmdir('profiles')"],
    }.each do |name, (value, *arguments)|
      Dir.mkdir("profiles") unless Dir.exist?("profiles")
      system({ name => value }, RbConfig.ruby, "--disable-gems", *arguments, err: "/dev/full")
      abort "#{name}: #{$?}" unless $?.success?
    end
    # A profile that cannot begin ends Ruby, with its own status.
    system({ "ASHLAR_PROFILE" => "/no/such/folder/it.heap" }, RbConfig.ruby, "-e", "1", err: "/dev/full")
    abort "a profile that cannot begin: #{$?}" unless $?.exitstatus == 1
    puts "ok"
  RUBY
end

claim "an option of Ashlar's own comes before a RUBY_GC_ variable", only: "ashlar" do
  env = { "RUBY_GC_MALLOC_LIMIT" => "90000000", "ASHLAR_NURSERY_MIN" => "2MiB" }
  ruby_prints("#{2 << 20}\n", "puts GC.config[:nursery_min]", env:)
  finished = ruby_command(["-w", "-e", "exit"], env:)
  check_equal(<<~TEXT, finished.err)
    ashlar: RUBY_GC_MALLOC_LIMIT=90000000: nursery_min is 90000000
    ashlar: nursery_min is 2097152, as the variables of Ashlar say, which count more
  TEXT
end

claim "Ashlar's largest nursery may be less than the least one that a RUBY_GC_ variable asks for", only: "ashlar" do
  env = { "RUBY_GC_MALLOC_LIMIT" => "64000000", "ASHLAR_NURSERY_MAX" => "32MiB" }
  ruby_prints("#{[32 << 20, 32 << 20]}\n", "p GC.config.values_at(:nursery_min, :nursery_max)", env:)
end

claim "ruby -w says what became of each RUBY_GC_ variable, and nothing is said without it", only: "ashlar" do
  env = { "RUBY_GC_MALLOC_LIMIT" => "60000000", "RUBY_GC_HEAP_GROWTH_FACTOR" => "1.1", "RUBY_GC_HEAP_0_INIT_SLOTS" => "lots" }
  quiet = ruby_command(["-e", "exit"], env:)
  check(quiet.ok? && quiet.err.empty?) { quiet.describe }
  finished = ruby_command(["-w", "-e", "exit"], env:)
  check_equal(<<~TEXT, finished.err)
    ashlar: RUBY_GC_HEAP_0_INIT_SLOTS=lots is ignored: a whole number above 0 is wanted
    ashlar: RUBY_GC_MALLOC_LIMIT=60000000: nursery_min is 60000000
    ashlar: RUBY_GC_HEAP_GROWTH_FACTOR=1.1 is ignored: space_overhead says how far the heap grows
  TEXT
end
