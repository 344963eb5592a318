# GC.config: the default collector's option and Ashlar's own, while the program runs.
claim "GC.config shows every option with the value that the environment gave it", only: "ashlar" do
  env = { "ASHLAR_SPACE_OVERHEAD" => "77", "ASHLAR_EXCHANGE_RATE" => "1.75", "ASHLAR_MEMORY_LIMIT" => "512MiB", "ASHLAR_HEAP_MIN" => "3MiB", "ASHLAR_HEAP_INIT" => "5MiB", "ASHLAR_NURSERY_MIN" => "1MiB",
          "ASHLAR_NURSERY_MAX" => "9MiB", "ASHLAR_MALLOC" => "libc", "ASHLAR_INCREMENTAL" => "0", "ASHLAR_SLICE_US" => "700",
          "ASHLAR_THREADS" => "3", "ASHLAR_LAZY_CODE" => "0", "ASHLAR_POLICY" => "best-fit", "ASHLAR_HUGE_PAGES" => "1", "ASHLAR_STRESS" => "refuse:statm:1000,parallel-cells:1234" }
  ruby_ok(<<~'RUBY', env: { **env, "EXPECTED_NAME" => Subject.library })
    mib = 1 << 20
    expected = { rgengc_allow_full_mark: true, space_overhead: 77, exchange_rate: 1.75, memory_limit: 512 * mib, heap_min: 3 * mib, heap_init: 5 * mib, nursery_min: mib,
                 nursery_max: 9 * mib, incremental: false, slice_us: 700,
                 threads: 3, malloc: "libc", profile: "off", profile_bytes: 512 << 10, profile_command_line: false, live: false, code_cache: nil, lazy_code: false, policy: "best-fit", huge_pages: "1", stress: "parallel-cells:1234,refuse:statm:1000", refused_calls: 0, implementation: ENV["EXPECTED_NAME"] }
    abort GC.config.inspect unless GC.config == expected
    puts "ok"
  RUBY
end

claim "options change while the program runs, by number, size or nil", only: "ashlar" do
  ruby_ok <<~'RUBY'
    changed = GC.config(space_overhead: 50, memory_limit: "1GiB", nursery_min: 256 << 10, nursery_max: "4MiB", heap_min: 0)
    abort changed.inspect unless changed.values_at(:space_overhead, :memory_limit, :nursery_min, :nursery_max, :heap_min) ==
                                 [50, 1 << 30, 256 << 10, 4 << 20, 0]
    abort GC.config.inspect unless GC.config(memory_limit: nil)[:memory_limit].nil? && GC.config[:space_overhead] == 50
    abort GC.stat(:memory_limit_bytes).to_s unless GC.stat(:memory_limit_bytes) == 0
    abort GC.config.inspect unless GC.config(space_overhead: :auto, exchange_rate: 4).values_at(:space_overhead, :exchange_rate) == ["auto", 4.0]
    puts "ok"
  RUBY
end

claim "large buffers keep their contents under every policy, chosen while they are allocated and freed", only: "ashlar" do
  ruby_ok(<<~'RUBY', env: stress("verify", "collect-every:2000"))
    random = Random.new(7)
    live = Array.new(60)
    2000.times do |step|
      GC.config(policy: %w[best-fit next-fit segregated-fit first-fit][step / 50 % 4]) if step % 50 == 0
      index = random.rand(60)
      length = 40_000 + random.rand(1_500_000)
      abort "step #{step}" if live[index] && live[index].count((live[index].size % 26 + 97).chr) != live[index].size
      live[index] = (length % 26 + 97).chr * length
      live[random.rand(60)] = nil if step % 9 == 0
    end
    puts "ok"
  RUBY
end

claim "a value that cannot be is refused with option, value and range, and nothing changes", only: "ashlar" do
  ruby_ok <<~'RUBY'
    before = GC.config
    { { space_overhead: 5, stress: "verify" } => "space_overhead=5: auto or a whole number from 10 to 1000 is wanted",
      { rgengc_allow_full_mark: false, memory_limit: 3 } => "memory_limit=3: none, auto or a size of at least 16MiB is wanted",
      { heap_min: 0, nursery_min: "lots" } => "nursery_min=lots: a size of at least 64KiB is wanted",
      { space_overhead: nil } => "space_overhead=none: auto or a whole number from 10 to 1000 is wanted",
      { exchange_rate: 0.05 } => "exchange_rate=0.05: a number from 0.1 to 100 is wanted",
      { stress: "poison:often" } => "stress=poison:often: poison: 0 or 1 is wanted",
      { stress: true } => /\Astress=1: "1" is no switch; none, or some of collect-every, .*, refuse, is wanted\z/,
      { heap_min: 0, verify: true, slice_cells: 3 } => "slice_cells=3 verify=1: switches are words of stress; write stress=slice-cells:3,verify",
      { space_overhead: 40, malloc: GC.config[:malloc] == "libc" ? "heap" : "libc" } => /\Amalloc=\w+: choose it at the start; it cannot change later\z/,
      { "space_overhead" => 40 } => /the name of an option is wanted, as a Symbol/
    }.each do |options, message|
      GC.config(options)
      abort "accepted #{options}"
    rescue ArgumentError => error
      abort "#{options}: #{error.message}" unless message === error.message
      abort "#{options} changed something" unless GC.config == before
    end
    puts "ok"
  RUBY
end

claim "keys that are no option are passed over, as Ruby documents" do
  ruby_ok <<~'RUBY'
    before = GC.config
    after = GC.config(no_such_key: true)
    abort after.inspect unless after[:no_such_key].nil? && GC.config == before
    puts "ok"
  RUBY
end

claim "a smaller nursery set while running collects more often", only: "ashlar" do
  ruby_ok <<~'RUBY'
    count = lambda do |nursery|
      GC.config(nursery_min: nursery, nursery_max: nursery)
      GC.start
      before = GC.count
      300_000.times { |i| i.to_s }
      GC.count - before
    end
    large = count.call(16 << 20)
    small = count.call(256 << 10)
    abort "small #{small} large #{large}" unless small > 4 * large
    puts "ok"
  RUBY
end

claim "stress switches go on and off while the program runs", only: "ashlar" do
  ruby_ok <<~'RUBY'
    collections = lambda do
      before = GC.count
      1_000.times { Object.new }
      GC.count - before
    end
    abort "before" unless collections.call < 5
    abort GC.config.inspect unless GC.config(stress: "verify,poison,collect-every:50")[:stress] == "collect-every:50,verify,poison"
    abort "on" unless collections.call >= 15
    abort GC.config.inspect unless GC.config(stress: nil)[:stress].nil?
    abort "off" unless collections.call < 5
    puts "ok"
  RUBY
end
