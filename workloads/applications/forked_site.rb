# frozen_string_literal: true

# The small web site of shop.rb as a server that forks: a parent loads much code and the site, answers some requests, calls
# Process.warmup and forks workers, and each answers requests of its own.
#   forked_site.rb [WORKERS] [REQUESTS]
# Tells, of the parent and its workers together:
# settled_mib             PSS, the mean over the last half of what the parent noted while the workers worked
# highest_mib             the highest PSS noted
# gc_count, gc_time_ms    collections, those of the parent included
require_relative "shop"
require_relative "memory_samples"
require_relative "../ruby/figures"
require "rbconfig"
require "rdoc"
require "prism"

NOTE_EVERY_S = 0.1
WARM_UP_REQUESTS = 200
workers = Integer(ARGV.fetch(0, "4"))
requests = Integer(ARGV.fetch(1, "4000"))

library = RbConfig::CONFIG.fetch("rubylibdir")
Dir.glob("{rdoc/markup,rdoc/parser,prism,net/http,optparse,psych}/**/*.rb", base: library).grep_v(/translation/).sort.each do |file|
  require File.join(library, file)
rescue LoadError, NameError
  next # wants a library that is not there, or another file first
end
site = RequestLog.new(Shop.new(Numbers.new(11)))

def answer(site, random, requests)
  visitor = ShopVisitor.new(site, random)
  requests.times { visitor.read(visitor.ask(visitor.question)) }
  visitor.checksum
end

answer(site, Numbers.new(7), WARM_UP_REQUESTS)
Process.warmup
samples = MemorySamples.new
forked = Array.new(workers) do |number|
  theirs, mine = IO.pipe
  pid = fork do
    theirs.close
    before = [GC.count, GC.total_time]
    checksum = answer(site, Numbers.new(100 + number), requests)
    Marshal.dump([checksum, GC.count - before[0], GC.total_time - before[1]], mine)
    mine.flush
    sleep # until the parent has noted the last of its memory
  end
  mine.close
  [pid, theirs]
end
pids = [Process.pid, *forked.map(&:first)]
note = -> { samples.note(pss_mib: pids.sum { |pid| MemorySamples.of(pid)[:pss_mib] }) }
waiting = forked.map(&:last)
until waiting.empty?
  note.call
  waiting -= IO.select(waiting, nil, nil, NOTE_EVERY_S)&.first || []
end
note.call
reports = forked.map { |_, pipe| pipe.eof? ? abort("a worker ended before its time") : Marshal.load(pipe) }
forked.each do |pid, _|
  Process.kill(:KILL, pid)
  Process.wait(pid)
end
Figures.tell(settled_mib: samples.settled(:pss_mib), highest_mib: samples.highest(:pss_mib),
             gc_count: GC.count + reports.sum { |report| report[1] }, gc_time_ms: (GC.total_time + reports.sum { |report| report[2] }) / 1e6)
puts reports.map(&:first).join(" ")
