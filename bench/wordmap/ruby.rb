# frozen_string_literal: true

# Ashlar::WordMap beside Hash and Array as a Ruby program sees them: sparse and
# clustered integer keys, CPU time and memory. Each cell is a fork of its own,
# the peers take turns, and the answers are checked. Prints a Markdown table.
require "ashlar/wordmap"
require "objspace"

ROUNDS = Integer(ENV.fetch("ROUNDS", "3"))
N = Integer(ENV.fetch("N", "200000"))

WORKLOADS = {
  "clustered (runs of 16 among 2^32)" => ->(r) { Array.new(N / 16) { r.rand(2**32) << 4 }.flat_map { |b| (b...b + 16).to_a } },
  "sparse (random among 2^60)" => ->(r) { Array.new(N) { r.rand(2**60) } },
  "dense, one in 64 (0 to 64 N)" => ->(r) { Array.new(N) { |i| i * 64 + r.rand(64) } },
  "tiny maps of 4 (keys 20000 to 28000)" => nil,
}.freeze

PEERS = { "WordMap" => -> { Ashlar::WordMap.new }, "Hash" => -> { {} }, "Array" => -> { [] } }.freeze

def cpu = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID)

def timed(count)
  GC.start
  start = cpu
  yield
  (cpu - start) * 1e9 / count
end

def large(make, keys)
  map = make.call
  insert = timed(keys.size) { keys.each { |k| map[k] = true } }
  picks = keys.shuffle(random: Random.new(3))
  sum = 0
  get = timed(picks.size) { picks.each { |k| sum += 1 if map[k] } }
  raise "a key was lost" unless sum == keys.size

  seen = 0
  # In key order, which a Hash has to sort for.
  walk = timed(keys.size) do
    case map
    when Hash then map.sort.each { |_, v| seen += 1 if v }
    when Array then map.each { |v| seen += 1 if v }
    else map.each_value { |v| seen += 1 if v }
    end
  end
  raise "a walk went wrong" unless seen == keys.uniq.size

  [ObjectSpace.memsize_of(map).fdiv(keys.size), insert, get, walk]
end

def tiny(make)
  random = Random.new(5)
  sets = Array.new(512) { Array.new(4) { |i| 20_000 + random.rand(1000) * 8 + i * 8 }.uniq }
  maps = Array.new(20_000) { make.call }
  insert = timed(80_000) { maps.each_with_index { |m, i| sets[i % 512].each { |k| m[k] = true } } }
  get = timed(80_000) { maps.each_with_index { |m, i| sets[i % 512].each { |k| m[k] or raise "lost" } } }
  walk = timed(80_000) { maps.each { |m| m.is_a?(Array) ? m.each { |v| v } : m.each { |_, v| v } } }
  [maps.sum { |m| ObjectSpace.memsize_of(m) }.fdiv(80_000), insert, get, walk]
end

def apart
  reader, writer = IO.pipe
  pid = fork do
    reader.close
    writer.write(Marshal.dump(yield))
    writer.close
    exit!(0)
  end
  writer.close
  result = reader.read
  Process.wait(pid)
  raise "a cell failed" unless $?.success?

  Marshal.load(result)
end

# An array over keys this far apart would not fit in memory.
def possible?(peer, workload) = peer != "Array" || workload.start_with?("dense")

puts "| keys | | bytes/entry | insert ns | get ns | ordered walk ns |", "|---|---|---:|---:|---:|---:|"
WORKLOADS.each do |workload, keys_of|
  keys = keys_of&.call(Random.new(1))
  runs = Hash.new { |h, k| h[k] = [] }
  ROUNDS.times do
    PEERS.each do |peer, make|
      next unless possible?(peer, workload)

      runs[peer] << apart { keys ? large(make, keys) : tiny(make) }
    end
  end
  medians = runs.transform_values { |r| r.transpose.map { |v| v.sort[v.size / 2] } }
  best = medians.values.transpose.map(&:min)
  medians.each do |peer, values|
    cells = values.zip(best).map { |v, b| format(v <= b ? "**%.1f**" : "%.1f (+%.0f %%)", v, (v / b - 1) * 100) }
    puts "| #{workload} | #{peer} | #{cells.join(' | ')} |"
  end
end
