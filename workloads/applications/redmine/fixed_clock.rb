# frozen_string_literal: true

# The time that it always is, so that pages that say how long ago something was are the same in every run. Clocks that
# measure (Process.clock_gettime) go on.
module FixedClock
  TODAY = Time.utc(2026, 1, 15, 12).freeze

  class << self
    attr_accessor :now
  end
  self.now = TODAY

  module OfTime
    def now(**zone) = at(FixedClock.now, **zone)
  end

  module OfDate
    def today(*) = FixedClock.now.to_date
  end
end

require "date"
ENV["TZ"] = "UTC"
Time.singleton_class.prepend(FixedClock::OfTime)
Date.singleton_class.prepend(FixedClock::OfDate)
