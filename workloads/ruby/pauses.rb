# frozen_string_literal: true

# A cache of a given size that lives on while requests come and go: each request makes
# short-lived objects, reads some entries and replaces a few. A clock around every request
# tells how long the slowest ones took; what the collector says of its pauses is beside it.
#   pauses.rb [LIVE_MIB] [SECONDS | REQUESTSr] [LEAF]
# LIVE_MIB (1024) is what the cache holds. It runs for SECONDS (10), or for a fixed number of
# REQUESTS ("400000r") when throughput is to be compared. LEAF is the number of entries of
# one table (4096); a table is traced in one piece.
require_relative "figures"
require_relative "numbers"

Entry = Struct.new(:id, :name, :tags, :body, :links)

class Cache
  # What an entry takes, about.
  ENTRY_BYTES = 430

  attr_reader :entries

  def initialize(live_mib, leaf, numbers)
    @numbers, @leaf, @tables, @entries = numbers, leaf, [], 0
    add_table while @entries * ENTRY_BYTES < live_mib << 20
  end

  def read
    @tables[@numbers.below(@tables.size)][@numbers.below(@leaf)]
  end

  def replace
    table = @tables[@numbers.below(@tables.size)]
    id = @numbers.below(@leaf)
    table[id] = entry(id, table[id])
  end

  private

  def add_table
    table = {}
    @tables << table
    @leaf.times { |id| table[id] = entry(id, table[id / 2]) }
    @entries += @leaf
  end

  def entry(id, link)
    tags = ["t#{id % 12}", "k#{id % 7}"]
    Entry.new(id, "entry #{id}", tags, "text of entry #{id} " * (1 + @numbers.below(6)), [link&.name, id * 1.5])
  end
end

def request(cache, numbers)
  rows = Array.new(20) do |i|
    entry = cache.read
    { id: i, title: "#{entry.name} (#{entry.tags.join(", ")})", size: entry.body.bytesize }
  end
  3.times { cache.replace }
  rows.sum { |row| row[:title].bytesize + row[:size] }
end

def milliseconds(nanoseconds) = format("%.3f", nanoseconds / 1e6)

live_mib = Integer(ARGV[0] || 1024)
duration = ARGV[1] || "10"
numbers = Numbers.new(71)
cache = Cache.new(live_mib, Integer(ARGV[2] || 4096), numbers)
warm = GC.stat
deadline_ns = Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)
limit = duration.end_with?("r") ? Integer(duration.chomp("r")) : nil
deadline_ns += (Float(duration) * 1e9).to_i unless limit
begun_ns = Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)
begun_cpu = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID)
lengths_ns = []
checksum = 0
before_ns = begun_ns
loop do
  checksum = (checksum * 31 + request(cache, numbers)) & 0xffff_ffff
  now_ns = Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)
  lengths_ns << now_ns - before_ns
  before_ns = now_ns
  break if limit ? lengths_ns.size >= limit : now_ns >= deadline_ns
end
seconds = (before_ns - begun_ns) / 1e9
cpu = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) - begun_cpu
sorted = lengths_ns.sort
quantile = ->(share) { milliseconds(sorted[(share * (sorted.size - 1)).floor]) }
stat = GC.stat
warn "#{sorted.size} requests in #{seconds.round(3)} s (#{(sorted.size / seconds).round} /s, #{(cpu / sorted.size * 1e6).round(2)} us of CPU each), " \
     "#{cache.entries} entries"
warn "request ms: p50 #{quantile[0.5]}, p99 #{quantile[0.99]}, p99.9 #{quantile[0.999]}, p99.99 #{quantile[0.9999]}, max #{quantile[1]}"
warn "CPU since the process began: #{Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID).round(3)} s"
done = ->(name) { stat[name] - warm[name] if stat[name] }
warn "collections: #{done[:minor_gc_count]} minor, #{done[:major_gc_count]} major#{", #{done[:complete_gc_count]} of them full" if stat[:complete_gc_count]}"
if stat[:pause_count]
  warn "pauses since the start, ms: #{stat[:pause_count]} of them, p50 #{stat[:pause_us_p50] / 1e3}, p99 #{stat[:pause_us_p99] / 1e3}, max #{stat[:pause_us_max] / 1e3}"
end
puts limit ? "#{cache.entries} entries, checksum #{checksum}" : "#{cache.entries} entries"
