# Loading code, and what the parser leaves behind.

claim "memory that the parser has taken for a large file goes back to the system while the program goes on loading", only: "ashlar" do
  File.write(File.join(folder, "table.rb"), <<~RUBY)
    TABLE = [#{Array.new(300_000) { _1 * 1_000_003 }.join(", ")}]
    # Compiled while the parser's nodes are there, it lies behind them under ASHLAR_MALLOC=libc.
    def behind(text) = text.match?(/a[bc]+d{3,9}|(?<name>x+)y/)
  RUBY
  80.times { |i| File.write(File.join(folder, "small#{i}.rb"), "def small#{i} = #{i}\n") }
  finished = ruby(<<~'RUBY')
    rss_bytes = -> { File.read("/proc/self/status")[/VmRSS:\s+(\d+)/, 1].to_i << 10 }
    require "./table"
    after_table_bytes = rss_bytes.()
    80.times { |i| require "./small#{i}"; Array.new(10_000) { +"" } }
    abort "no collection" if GC.count.zero?
    abort "lost" unless TABLE.size == 300_000 && behind("abcddd") && small79 == 79
    puts after_table_bytes - rss_bytes.()
  RUBY
  check(finished.ok?) { finished.describe }
  check(finished.out.to_i > 10 << 20) { "given back: #{finished.out} bytes" }
end
