# frozen_string_literal: true

# A server whose parent has a large cache that its workers only read: a catalogue in memory.
#   forked_cache.rb [MIB] [WORKERS] [REQUESTS]     the cache takes about MIB on stock Ruby
# Tells, of the parent and its workers together:
# fork_ms                 one fork, in the parent: the median over the workers
# settled_mib, highest_mib   PSS when all workers have answered their requests
# private_dirty_mib       private dirty memory of the workers together, then
# worker_private_percent  that of one worker, in percent of the parent's RSS
# gc_count, gc_time_ms    collections, those of the parent included
require_relative "memory_samples"
require_relative "../ruby/figures"
require_relative "../ruby/numbers"

MIB = Integer(ARGV.fetch(0, "1000"))
WORKERS = Integer(ARGV.fetch(1, "4"))
REQUESTS = Integer(ARGV.fetch(2, "1000"))
RECORDS_PER_MIB = 1000
RECORDS_PER_REQUEST = 100

Record = Struct.new(:name, :text, :prices, :attributes)

numbers = Numbers.new(5)
cache = Array.new(MIB * RECORDS_PER_MIB) do |id|
  text = "#{id} " * (20 + numbers.below(60))
  [id, Record.new("record #{id}", text, Array.new(8) { numbers.below(10_000) }, { "id" => id.to_s, "kind" => "kind #{id % 50}" })]
end.to_h

def answer(cache, numbers)
  lines = Array.new(RECORDS_PER_REQUEST) do
    record = cache.fetch(numbers.below(cache.size))
    "#{record.name.upcase}: #{record.prices.min}, #{record.attributes["kind"]}, #{record.text.size}"
  end
  lines.join("\n").sum
end

answer(cache, Numbers.new(6))
Process.warmup
rss_mib = MemorySamples.resident_mib
forks_ms = []
forked = Array.new(WORKERS) do |number|
  theirs, mine = IO.pipe
  began = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  pid = fork do
    before = [GC.count, GC.total_time]
    numbers = Numbers.new(100 + number)
    sum = REQUESTS.times.sum { answer(cache, numbers) }
    mine.puts [sum, GC.count - before[0], GC.total_time - before[1]].join(" ")
    sleep # until the parent has noted its memory
  end
  forks_ms << (Process.clock_gettime(Process::CLOCK_MONOTONIC) - began) * 1e3
  mine.close
  [pid, theirs]
end
reports = forked.map { |_, pipe| (pipe.gets || abort("a worker ended before its time")).split.map(&:to_i) }
parent, *workers = [Process.pid, *forked.map(&:first)].map { |pid| MemorySamples.of(pid) }
forked.each do |pid, _|
  Process.kill(:KILL, pid)
  Process.wait(pid)
end
private_dirty_mib = workers.sum { |worker| worker[:private_dirty_mib] }
pss_mib = [parent, *workers].sum { |one| one[:pss_mib] }
Figures.tell(fork_ms: forks_ms.sort[WORKERS / 2], settled_mib: pss_mib, highest_mib: pss_mib, private_dirty_mib:,
             worker_private_percent: 100 * private_dirty_mib / WORKERS / rss_mib, gc_count: GC.count + reports.sum { _1[1] },
             gc_time_ms: (GC.total_time + reports.sum { _1[2] }) / 1e6)
puts reports.map(&:first).join(" ")
