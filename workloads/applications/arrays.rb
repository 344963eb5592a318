# frozen_string_literal: true

# Small things done to many arrays, at lengths that fit into the object of either collector
# and at one that does not: how often a second all 10,000 arrays are gone through.
#   arrays.rb [TIMES]
# Tells the lab first_10_per_s and the like: the operation, the length, passes a second.
require_relative "../ruby/figures"

COUNT = 10_000
LENGTHS = [3, 10, 60, 300].freeze

# Each is a method of its own, so that the loop is the same and nothing is called through a block.
module Passes
  def self.first(arrays) = (i = -1; arrays[i].first while (i += 1) < COUNT)
  def self.last(arrays) = (i = -1; arrays[i].last while (i += 1) < COUNT)
  def self.store_first(arrays) = (i = -1; arrays[i][0] = i while (i += 1) < COUNT)
  def self.store_last(arrays) = (i = -1; arrays[i][-1] = i while (i += 1) < COUNT)
  def self.each(arrays) = (i = -1; arrays[i].each { |item| item } while (i += 1) < COUNT)
end

times = Integer(ARGV.fetch(0, "150"))
rates = {}
sum = 0
LENGTHS.each do |length|
  arrays = Array.new(COUNT) { Array.new(length) }
  %i[first last store_first store_last each].each do |operation|
    passes = operation == :each ? [times * 4 / length, 1].max : times
    started = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID)
    passes.times { Passes.public_send(operation, arrays) }
    rates["#{operation}_#{length}_per_s"] = passes / (Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) - started)
  end
  sum += arrays.sum { |array| array.first + array.last }
end
at_exit { Figures.append(ENV["ASHLAR_REPORT_FILE"], rates) if ENV["ASHLAR_REPORT_FILE"] }
puts sum
