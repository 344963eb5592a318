# frozen_string_literal: true

# Responses written into buffers: each is given room in advance and filled partly, one in
# eight outgrows its room and keeps growing. The newest batches stay alive, as queued
# responses do, so hundreds of megabytes live in strings and few in objects.
#   strings.rb [BATCHES]
require_relative "figures"
require_relative "numbers"

BUFFERS = 200
QUEUED_BATCHES = 60
numbers = Numbers.new(5)
pieces = Array.new(32) { |i| (("a".ord + i % 26).chr * (120 + i * 90)).freeze }

queue = []
checksum = 0
Integer(ARGV[0] || 420).times do |turn|
  batch = Array.new(BUFFERS) do |n|
    buffer = String.new(capacity: (16 + numbers.below(64)) * 1024)
    appends = n % 8 == 7 ? 80 : 1 + numbers.below(6)
    appends.times { buffer << pieces[numbers.below(32)] }
    buffer
  end
  queue << batch
  dropped = queue.shift if queue.size > QUEUED_BATCHES
  checksum = (checksum * 31 + batch.sum(&:bytesize) + (dropped ? dropped[turn % BUFFERS].getbyte(0) : 0)) & 0xffff_ffff
end
puts "#{queue.sum { |batch| batch.sum(&:bytesize) }} bytes queued, checksum #{checksum}"
