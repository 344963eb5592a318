# The collector's own tables of object ids and finalizers, from Ruby: what an
# entry takes, and how long giving, finding and collecting with them takes.
# Works on any Ruby and any collector; prints one line of JSON.
#
#   RUBY_GC_LIBRARY=ashlar ruby bench/wordmap/collector_tables.rb [ENTRIES]
require "json"

ENTRIES = (ARGV[0] || 1_000_000).to_i
FINALIZER = proc {}
Warning[:deprecated] = false

def resident_bytes = File.read("/proc/self/statm").split[1].to_i * 4096

def cpu_ns = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID, :nanosecond)

# CPU nanoseconds of each of `steps` steps of the block.
def timed(steps)
  start = cpu_ns
  yield
  ((cpu_ns - start) / steps.to_f).round(1)
end

def collection_ms
  times = Array.new(7) { timed(1_000_000) { GC.start } }
  times.sort[3].round(2)
end

result = { entries: ENTRIES }
objects = Array.new(ENTRIES) { Object.new }
shuffled = objects.shuffle(random: Random.new(1))
3.times { GC.start }
result[:loop_ns] = timed(ENTRIES) { objects.each(&:itself) }
result[:collection_ms] = collection_ms

before = resident_bytes
result[:first_object_id_ns] = timed(ENTRIES) { objects.each(&:object_id) }
result[:object_id_bytes] = ((resident_bytes - before) / ENTRIES.to_f).round(1)
result[:object_id_ns] = timed(ENTRIES) { objects.each(&:object_id) }
result[:object_id_shuffled_ns] = timed(ENTRIES) { shuffled.each(&:object_id) }
result[:collection_with_ids_ms] = collection_ms
ids = Array.new(100_000) { |i| shuffled[i].object_id }
before = resident_bytes
result[:first_id2ref_ms] = timed(1_000_000) { ObjectSpace._id2ref(ids.first) }
result[:id2ref_bytes] = ((resident_bytes - before) / ENTRIES.to_f).round(1)
result[:id2ref_ns] = timed(ids.size) { ids.each { |id| ObjectSpace._id2ref(id) } }

owners = Array.new(ENTRIES) { Object.new }
3.times { GC.start }
result[:collection_before_finalizers_ms] = collection_ms
GC.disable
before = resident_bytes
result[:define_finalizer_ns] = timed(ENTRIES) { owners.each { |owner| ObjectSpace.define_finalizer(owner, FINALIZER) } }
result[:define_finalizer_bytes] = ((resident_bytes - before) / ENTRIES.to_f).round(1)
GC.enable
result[:collection_with_finalizers_ms] = collection_ms
result[:undefine_finalizer_ns] = timed(ENTRIES) { owners.each { |owner| ObjectSpace.undefine_finalizer(owner) } }

# All objects with ids die at once.
shuffled = objects = nil
result[:collection_of_dead_ids_ms] = timed(1_000_000) { 3.times { GC.start } }
puts JSON.generate(result)
