# frozen_string_literal: true

require_relative "requests"

# Rack middleware: the collector's time while at least one request was being answered. A
# collection that several threads wait for counts once.
class GcInRequests
  def initialize(app)
    @app = app
    @lock = Mutex.new
    @running = 0
    @collector_ns = 0
    @collections = 0
    at_exit { Figures.append(ENV["ASHLAR_REPORT_FILE"], figures) if ENV["ASHLAR_REPORT_FILE"] }
  end

  def call(environment)
    @lock.synchronize { begun if (@running += 1) == 1 }
    @app.call(environment)
  ensure
    @lock.synchronize { ended if (@running -= 1).zero? }
  end

  def figures = { gc_in_requests_ms: @collector_ns / 1e6, gc_in_requests_count: @collections }

  private

  def begun
    @since_ns = GC.total_time
    @since_count = GC.count
  end

  def ended
    @collector_ns += GC.total_time - @since_ns
    @collections += GC.count - @since_count
  end
end
