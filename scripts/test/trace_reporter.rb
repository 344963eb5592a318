# frozen_string_literal: true

# Loaded into a program that record_trace.py records: after each collection, as soon as finalizers run, and at the end it writes a line
# into the file $TRACE_REPORTS: collections, CPU time of the process in ns, CPU time of the collector in ns, files loaded, resident bytes, live bytes.
module TraceReporter
  REPORTS = File.open(ENV.fetch("TRACE_REPORTS"), "w")
  PROCESS = Process.pid

  def self.report(*)
    return if Process.pid != PROCESS

    cpu_ns = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID, :nanosecond)
    REPORTS.syswrite("#{GC.count} #{cpu_ns} #{GC.total_time} #{$LOADED_FEATURES.size} #{GC.stat(:resident_bytes)} #{GC.stat(:live_bytes)}\n")
  end

  # The next collection finds the new object dead and finalizes it. When the program ends Ruby calls all finalizers, as often as there are some.
  def self.after_collection(*)
    return if @has_ended

    report
    ObjectSpace.define_finalizer(Object.new, method(:after_collection))
  end

  def self.end_with_program
    report
    @has_ended = true
  end
end

TraceReporter.after_collection
at_exit { TraceReporter.end_with_program }
