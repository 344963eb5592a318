# Allocates and drops memory, then reports what the collector did.
kept = Array.new(20_000)
sum = 0
400_000.times do |i|
  kept[i % kept.length] = [i, "text #{i}" * 4]
  sum += kept[(i * 7) % kept.length]&.first.to_i % 1000
end
puts sum
File.write(ENV.fetch("ASHLAR_REPORT_FILE"), "{\"gc_count\": #{GC.count}}\n", mode: "a")
