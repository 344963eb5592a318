# frozen_string_literal: true

# A Rails application as a server that forks: a parent loads all of it and forks workers, and each answers requests of its own.
# All of them do a round, then the parent notes what the processes take together, then they do the next one.
#   forked_server.rb tracker|redmine [WORKERS] [ROUNDS] [WARM_UP_ROUNDS] [warmup|refork]
# WARM_UP_ROUNDS are rounds in the parent before it forks; `warmup` has it call Process.warmup after these. With `refork` it forks a
# worker then, and that one does as many rounds, calls Process.warmup, too, and forks the workers, as Pitchfork does.
#
# Tells, beside what requests.rb tells of the workers' requests (requests_per_s are those of all workers by the wall time of
# the rounds), of the parent and its workers together:
# settled_mib, highest_mib   PSS: the mean over the last half of the rounds, and the highest after a round
# first_mib, final_mib       PSS when the workers have been forked, and after the last round
# late_percent               PSS after the last three rounds in percent of that after rounds 4 to 6, if there are more than 8
# private_dirty_mib          private dirty memory of the workers together, settled
# shared_dirty_mib           shared dirty memory of one worker, settled
# gc_count, gc_time_ms       collections, those of the parent included
# worker_gc_count            collections of one worker
require_relative "requests"
require_relative "memory_samples"
require_relative "rails_application"

# A forked process that does a round whenever it is told to.
class Worker
  Report = Struct.new(:answers, :requests, :collections, :collector_ns)

  attr_reader :pid

  # `others` are the workers before it, whose pipes it closes.
  def initialize(number, others)
    theirs, @orders = IO.pipe
    @answers, mine = IO.pipe
    @pid = fork do
      [@orders, @answers, *others.flat_map(&:pipes)].each(&:close)
      serve(number, theirs, mine)
      exit! # what the parent does at its end is the parent's
    end
    theirs.close
    mine.close
    expect("ready")
  end

  def pipes = [@orders, @answers]

  def begin_round = tell(@orders, "round")

  def wait_for_round = expect("done")

  # Ends it; gives its report.
  def finish
    tell(@orders, "end")
    report = Marshal.load(@answers)
    Process.wait(@pid)
    report
  end

  private

  def serve(number, orders, answers)
    collections = GC.count
    collector_ns = GC.total_time
    requests = Requests.new
    visitor = RailsApplication.visitor(100 + number, reads_only: true)
    tell(answers, "ready")
    while orders.gets == "round\n"
      RailsApplication.requests_a_round.times { requests.measure { visitor.request } }
      tell(answers, "done")
    end
    Marshal.dump(Report.new(visitor.answers, requests.seen, GC.count - collections, GC.total_time - collector_ns), answers)
  end

  def tell(pipe, word)
    pipe.puts(word)
    pipe.flush
  end

  def expect(word)
    return if @answers.gets == "#{word}\n"

    Process.wait(@pid)
    abort "a worker ended before its time: #{$?}"
  end
end

# The sums over processes, and what one worker shares.
def together(pids, worker_count)
  all = pids.map { |pid| MemorySamples.of(pid) }
  workers = all.last(worker_count)
  { pss_mib: all.sum { |one| one[:pss_mib] }, rss_mib: all.sum { |one| one[:rss_mib] },
    private_dirty_mib: workers.sum { |one| one[:private_dirty_mib] },
    shared_dirty_mib: workers.sum { |one| one[:shared_dirty_mib] } / workers.size }
end

# What is forked from here on is warm.
def warm_up(rounds, seed, warmup:)
  count = rounds * RailsApplication.requests_a_round
  visitor = RailsApplication.visitor(seed, reads_only: true) if count.positive?
  count.times { visitor.request }
  ActiveRecord::Base.connection_handler.clear_all_connections!(:all)
  Process.warmup if warmup
end

# Workers of this process do their rounds. `ancestors` are those of its processes whose memory counts, too.
def serve(workers, rounds, ancestors)
  forked = workers.times.each_with_object([]) { |number, before| before << Worker.new(number, before) }
  pids = [*ancestors, Process.pid, *forked.map(&:pid)]
  samples = MemorySamples.new
  samples.note(together(pids, workers))
  wall_s = rounds.times.sum do
    began = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    forked.each(&:begin_round)
    forked.each(&:wait_for_round)
    ended = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    samples.note(together(pids, workers))
    ended - began
  end
  own = [GC.count, GC.total_time]
  report(samples, wall_s, own, forked.map(&:finish))
end

def report(samples, wall_s, own, reports)
  requests = Requests.new
  reports.each { |report| requests.add(report.requests) }
  Figures.tell(
    requests_per_s: requests.seen.seconds.size / wall_s,
    settled_mib: samples.settled(:pss_mib), highest_mib: samples.highest(:pss_mib),
    first_mib: samples.first(:pss_mib), final_mib: samples.last(:pss_mib), late_percent: samples.late_percent(:pss_mib),
    private_dirty_mib: samples.settled(:private_dirty_mib), shared_dirty_mib: samples.settled(:shared_dirty_mib),
    gc_count: own[0] + reports.sum(&:collections), gc_time_ms: (own[1] + reports.sum(&:collector_ns)) / 1e6,
    worker_gc_count: reports.sum(&:collections) / reports.size
  )
  reports.each_with_index { |report, number| puts "#{number}: #{report.answers}" }
end

name, workers, rounds, warm_up_rounds, how = ARGV
workers = Integer(workers || 4)
rounds = Integer(rounds || 20)
warm_up_rounds = Integer(warm_up_rounds || 0)
[nil, "warmup", "refork"].include?(how) or abort "forked_server.rb: '#{how}' is neither warmup nor refork"
RailsApplication.start(name)
warm_up(warm_up_rounds, 7, warmup: how)
if how == "refork"
  pid = fork do
    warm_up(warm_up_rounds, 99, warmup: true)
    serve(workers, rounds, [Process.ppid])
  end
  Process.wait(pid)
  exit!($?.success? || false) # what is told has been told
end
serve(workers, rounds, [])
