# frozen_string_literal: true

# What requests cost: how long each took and how much of that was the collector. Tells the
# lab when the program ends, beside what ../ruby/figures.rb tells of the whole process.
#
# requests_per_s        requests by the wall time that they took together
# p50_ms ... p999_ms    wall time of a request; a percentile with fewer than twenty slower requests is left out
# request_ms_max        that of the longest one
# requests_cpu_s        CPU time inside requests, of every thread
# gc_in_requests_ms     the collector's time inside requests, as it measures itself
# gc_in_requests_count  collections that were finished inside requests
# gc_in_request_ms_max  the most of it in one request
require_relative "../ruby/figures"

class Requests
  PERCENTILES = { p50_ms: 0.5, p90_ms: 0.9, p99_ms: 0.99, p999_ms: 0.999 }.freeze
  SLOWER_LEAST = 20

  # What was seen of some requests.
  Seen = Struct.new(:seconds, :collector_ns, :collections, :cpu_s)

  def initialize
    @seconds = []
    @collector_ns = []
    @collections = 0
    @cpu_s = 0.0
    at_exit { write(ENV["ASHLAR_REPORT_FILE"]) if ENV["ASHLAR_REPORT_FILE"] }
  end

  def seen = Seen.new(@seconds, @collector_ns, @collections, @cpu_s)

  # What another process has seen counts, too.
  def add(seen)
    @seconds.concat(seen.seconds)
    @collector_ns.concat(seen.collector_ns)
    @collections += seen.collections
    @cpu_s += seen.cpu_s
  end

  # Runs and measures one request; gives what the block gives.
  def measure
    count = GC.count
    collector = GC.total_time
    cpu = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID)
    started = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    answer = yield
    @seconds << (Process.clock_gettime(Process::CLOCK_MONOTONIC) - started)
    @cpu_s += Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) - cpu
    @collector_ns << (GC.total_time - collector)
    @collections += GC.count - count
    answer
  end

  def figures
    return {} if @seconds.empty?

    sorted = @seconds.sort
    { requests_per_s: sorted.size / sorted.sum,
      **PERCENTILES.transform_values { |share| (share * sorted.size).ceil }
                   .select { |_, rank| sorted.size - rank >= SLOWER_LEAST }
                   .transform_values { |rank| sorted[rank - 1] * 1e3 },
      request_ms_max: sorted.last * 1e3,
      requests_cpu_s: @cpu_s,
      gc_in_requests_ms: @collector_ns.sum / 1e6,
      gc_in_requests_count: @collections,
      gc_in_request_ms_max: @collector_ns.max / 1e6 }
  end

  private

  def write(path) = Figures.append(path, figures)
end
