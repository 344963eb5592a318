# frozen_string_literal: true

# A worker of background jobs: a burst of them, then nothing for a while, again and again. A job reads rows as JSON, groups
# them, writes a table as CSV and compresses it. RSS is noted after each job, and while the worker waits.
#   job_worker.rb [BURSTS] [JOBS] [WAIT_MS]
# Tells, beside what requests.rb tells of the jobs:
# settled_mib, highest_mib   RSS: the mean over the last half of the notes, and the highest
# idle_mib                   mean RSS while it waits, in the last half of the waits
require "digest"
require "json"
require "zlib"
require_relative "memory_samples"
require_relative "requests"
require_relative "../ruby/numbers"

class ReportJob
  Row = Struct.new(:id, :owner, :kind, :amount, :note)

  def initialize(random) = @text = JSON.generate(Array.new(800) { |id| row(id, random) })

  def run
    rows = JSON.parse(@text).map { |found| Row.new(*found.values_at("id", "owner", "kind", "amount", "note")) }
    groups = rows.group_by(&:owner).sort.map { |owner, own| [owner, own.sum(&:amount), own.map(&:kind).tally.sort.to_h] }
    table = rows.sort_by { |row| [row.kind, row.amount] }.map { |row| row.to_a.map { |value| value.to_s.include?(",") ? "\"#{value}\"" : value }.join(",") }
    Zlib.deflate([JSON.generate(groups), *table].join("\n"), 6)
  end

  private

  def row(id, random)
    { id:, owner: "owner #{random.below(40)}", kind: "kind #{random.below(9)}", amount: random.below(10_000), note: "a note, of some length, about #{id} " * (1 + random.below(4)) }
  end
end

bursts = Integer(ARGV.fetch(0, "8"))
jobs = Integer(ARGV.fetch(1, "60"))
wait_ms = Integer(ARGV.fetch(2, "500"))
random = Numbers.new(5)
requests = Requests.new
samples = MemorySamples.new
waits = MemorySamples.new
digest = Digest::SHA256.new
bursts.times do
  jobs.times do
    digest << Zlib.inflate(requests.measure { ReportJob.new(random).run })
    samples.note(rss_mib: MemorySamples.resident_mib)
  end
  (wait_ms / 10).times do
    sleep 0.01
    found = { rss_mib: MemorySamples.resident_mib }
    samples.note(found)
    waits.note(found)
  end
end
Figures.tell(settled_mib: samples.settled(:rss_mib), highest_mib: samples.highest(:rss_mib), idle_mib: waits.settled(:rss_mib))
puts digest.hexdigest[0, 16]
