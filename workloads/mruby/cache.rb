# A cache of a given size that lives on while requests come and go, with a clock around every request: how long the
# slowest took, collector and all. The same question for any collector.
#   cache.rb [ENTRIES] [REQUESTS] [FILE]
# FILE gets the figures, as the lab takes them; standard output unless given. REQUESTS: 100000 at most.
class Entry
  attr_reader :id, :body

  def initialize(id, body)
    @id = id
    @body = body
    @tags = [id % 7, "tag#{id % 100}"]
  end
end

entries = (ARGV[0] || 300000).to_i
requests = (ARGV[1] || 100000).to_i
tables = []
entries.times do |id|
  tables << [] if id % 1000 == 0
  tables.last << Entry.new(id, "the body of entry #{id}")
end

seed = 42
times = Array.new(requests, 0.0)
sum = 0
requests.times do |request|
  from = Time.now
  row = nil
  10.times do
    seed = (seed * 1103515245 + 12345) % 2147483648
    table = tables[seed % tables.size]
    entry = table[seed / 1000 % table.size]
    row = { id: entry.id, text: entry.body + "!" }
    sum += row[:text].size
  end
  table = tables[seed % tables.size]
  table[seed / 1000 % table.size] = Entry.new(row[:id], row[:text][0, 30])
  times[request] = Time.now - from
end
sorted = times.sort
report = { request_ms_max: sorted.last * 1000, request_ms_p999: sorted[requests * 999 / 1000] * 1000, request_us_median: sorted[requests / 2] * 1000000 }
if GC.respond_to?(:stat)
  report[:pause_ms_max] = GC.stat[:pause_ns_max] / 1000000.0
end
line = "{" + report.map { |name, value| "\"#{name}\": #{value}" }.join(", ") + "}"
if ARGV[2]
  File.open(ARGV[2], "a") { |file| file.puts line }
else
  puts line
end
puts sum
