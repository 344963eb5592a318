# frozen_string_literal: true

# Many buffers of 64 KiB: made with that capacity, written to a little, dropped.
#   buffers_64k.rb [ROUNDS]
require_relative "../ruby/figures"

sum = 0
Integer(ARGV.fetch(0, "5")).times do |round|
  500.times do |batch|
    buffers = Array.new(200) { String.new(capacity: 64 * 1024) }
    buffers.each_with_index { |buffer, number| buffer << "buffer #{number} of #{batch}, round #{round}" }
    sum += buffers.sum(&:bytesize)
  end
end
puts sum
