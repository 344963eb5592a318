# An option that cannot be honoured stops Ruby before the program runs, with one line that
# names the option, the value it was given and what is allowed.
IMPOSSIBLE = {
  "ASHLAR_SPACE_OVERHEAD" => %w[banana -5 0 1e999 12x],
  "ASHLAR_MALLOC" => %w[jemalloc 1 LIBC],
  "ASHLAR_MEMORY_LIMIT" => %w[lots -1 12QiB 0],
  "ASHLAR_HEAP_MIN" => %w[small -1 3furlongs]
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

claim "every option at a usual value is accepted", only: "ashlar" do
  [{ "ASHLAR_SPACE_OVERHEAD" => "80" }, { "ASHLAR_SPACE_OVERHEAD" => "400" }, { "ASHLAR_MALLOC" => "libc" }, { "ASHLAR_MEMORY_LIMIT" => "512MiB" },
   { "ASHLAR_HEAP_MIN" => "16MiB" }].each do |env|
    ruby_prints("ok\n", "Array.new(100_000) { |i| i.to_s }; GC.start; puts 'ok'", env:)
  end
end

claim "the variables that `make env` exports are no options and are ignored", only: "ashlar" do
  ruby_prints("ok\n", "puts 'ok'", env: { "ASHLAR_LIB" => "/x", "ASHLAR_GC_LIBRARY" => "x", "ASHLAR_CACHE" => "/x", "ASHLAR_RUBY_CFLAGS" => "-I/x" })
end

claim "a lower space overhead collects more often", only: "ashlar" do
  counts = %w[40 400].map do |overhead|
    finished = ruby("K = Array.new(100_000) { |i| i.to_s * 5 }; 1_000_000.times { |i| K[i % 100_000] = i.to_s * 5 }; puts GC.count",
                    env: { "ASHLAR_SPACE_OVERHEAD" => overhead })
    check(finished.ok?) { finished.describe }
    finished.out.to_i
  end
  check(counts[0] > counts[1]) { "collections at 40: #{counts[0]}, at 400: #{counts[1]}" }
end
