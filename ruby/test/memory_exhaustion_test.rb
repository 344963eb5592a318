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
