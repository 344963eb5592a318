# frozen_string_literal: true

require "etc"

# Memory in MiB, noted again and again while a program works. `settled` is the mean over the last half of what was noted: what
# a program needs when its start is over.
#
# With MEMORY_SAMPLES_FILE set, all that was noted is written there as CSV when the program ends: seconds since the first
# note, then what each note has.
class MemorySamples
  PAGE_BYTES = Etc.sysconf(Etc::SC_PAGESIZE)
  MIB = 1024.0 * 1024
  # What is asked of /proc/PID/smaps_rollup.
  ROLLUP = { rss_mib: "Rss", pss_mib: "Pss", private_dirty_mib: "Private_Dirty", shared_dirty_mib: "Shared_Dirty" }.freeze

  # Of this process; 20 microseconds, where smaps_rollup takes milliseconds.
  def self.resident_mib
    @statm ||= File.open("/proc/self/statm")
    @statm.pread(64, 0).split[1].to_i * PAGE_BYTES / MIB
  end

  # Exactly, of any process.
  def self.of(pid)
    text = File.read("/proc/#{pid}/smaps_rollup")
    ROLLUP.transform_values { |name| text[/^#{name}:\s+(\d+)/, 1].to_i / 1024.0 }
  end

  def initialize
    @notes = []
    @process = Process.pid
    at_exit { write(ENV["MEMORY_SAMPLES_FILE"]) if ENV["MEMORY_SAMPLES_FILE"] && Process.pid == @process }
  end

  def note(mib)
    @notes << { seconds: Process.clock_gettime(Process::CLOCK_MONOTONIC), **mib }
  end

  def first(name) = @notes.first.fetch(name)

  def last(name) = @notes.last.fetch(name)

  def highest(name) = @notes.map { |note| note.fetch(name) }.max

  def settled(name) = mean(@notes.last((@notes.size + 1) / 2), name)

  # The last three notes in percent of notes 4 to 6, the first one being note 0: means, because a single note depends on which
  # process has just answered a large request. nil when there are too few notes to tell.
  def late_percent(name)
    100 * mean(@notes.last(3), name) / mean(@notes[4..6], name) if @notes.size > 9
  end

  private

  def mean(notes, name) = notes.sum { |note| note.fetch(name) } / notes.size

  def write(path)
    return if @notes.empty?

    began = first(:seconds)
    lines = @notes.map { |note| note.map { |name, value| format("%.2f", name == :seconds ? value - began : value) }.join(",") }
    File.write(path, [@notes.first.keys.join(","), *lines].map { |line| "#{line}\n" }.join)
  end
end
