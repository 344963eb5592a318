# frozen_string_literal: true

# Many strings that grow by appending, as a server's output buffers do. One that is full is
# sent (a byte of it goes into the checksum) and dies; an empty one takes its place. Hundreds
# of megabytes live in strings and few in objects.
#   strings.rb [APPENDS]
require_relative "figures"
require_relative "numbers"

BUFFERS = 50_000
FULL_BYTES = 20_000
numbers = Numbers.new(5)
pieces = Array.new(32) { |i| (("a".ord + i % 26).chr * (FULL_BYTES / 16 + i * FULL_BYTES / 64)).freeze }

buffers = Array.new(BUFFERS) { String.new }
checksum = 0
Integer(ARGV[0] || 550_000).times do |turn|
  chosen = numbers.below(BUFFERS * pieces.size)
  index = chosen / pieces.size
  buffer = buffers[index] << pieces[chosen % pieces.size]
  next if buffer.bytesize < FULL_BYTES

  checksum = (checksum * 31 + buffer.bytesize + buffer.getbyte(turn % FULL_BYTES)) & 0xffff_ffff
  buffers[index] = String.new
end
puts "#{buffers.sum(&:bytesize)} bytes waiting, checksum #{checksum}"
