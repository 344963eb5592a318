# frozen_string_literal: true

# Tells the lab what the collector did: appends one line of JSON to the file named by
# ASHLAR_REPORT_FILE when the program ends. Required first, so that it runs last.
# Figures a collector does not keep are left out; `Figures.tell` adds the program's own. What is
# measured by the clock on the wall is left out where the program stands still now and then.
#
# gc_count            collections
# gc_time_ms          time inside them, as the collector itself measures it (the default
#                     collector counts CPU time)
# allocated_objects   objects made since the process began
# live_bytes          bytes of the cells that held an object at the end, garbage that was
#                     not swept yet included
# final_mib           resident memory when the program's work had ended, before Ruby takes the
#                     process down
# pause_ms_p99        length of the collector's pauses, those that only sweep included:
# pause_ms_max        the 99th percentile, and the longest
module Figures
  def self.gather
    stat = GC.stat
    figures = { gc_count: GC.count, gc_time_ms: GC.total_time / 1e6 }
    figures[:allocated_objects] = stat[:total_allocated_objects]
    figures[:live_bytes] = live_bytes
    figures[:final_mib] = resident_mib
    figures[:pause_ms_p99] = milliseconds(stat[:pause_us_p99])
    figures[:pause_ms_max] = milliseconds(stat[:pause_us_max])
    figures.compact
  end

  def self.resident_mib
    kib = File.foreach("/proc/self/status").find { |line| line.start_with?("VmRSS:") }
    kib && kib[/\d+/].to_i / 1024.0
  rescue SystemCallError
    nil # no Linux
  end

  def self.milliseconds(microseconds) = microseconds && microseconds / 1e3

  def self.live_bytes
    heaps = GC.stat_heap.values
    return if heaps.empty?

    heaps.sum { |heap| heap.fetch(:slot_size) * (heap.fetch(:total_allocated_objects) - heap.fetch(:total_freed_objects)) }
  rescue KeyError
    nil
  end

  # What the program itself says beside that, or in its place; nil where it cannot.
  def self.tell(figures) = own.merge!(figures.compact)

  def self.own = @own ||= {}

  def self.write(path) = append(path, { **gather, **own })

  BY_THE_WALL_CLOCK = %i[pause_ms_p99 pause_ms_max requests_per_s p50_ms p90_ms p99_ms p999_ms request_ms_max fork_ms].freeze

  def self.append(path, figures)
    figures = figures.except(*BY_THE_WALL_CLOCK) if ENV["ASHLAR_TAKES_TURNS"]
    line = figures.map { |name, value| "\"#{name}\": #{value}" }.join(", ")
    File.write(path, "{#{line}}\n", mode: "a")
  end
end

at_exit { Figures.write(ENV["ASHLAR_REPORT_FILE"]) if ENV["ASHLAR_REPORT_FILE"] }
