# frozen_string_literal: true

# Strings and arrays that grow step by step: logs written line by line, tables filled row
# by row, queues that are pushed and shifted. Large buffers are outgrown again and again.
#   growth.rb [ROUNDS]
require_relative "figures"
require_relative "numbers"

numbers = Numbers.new(31)
LINES = Array.new(50) { |i| "#{i} #{"field=value " * (i % 9 + 2)}\n".freeze }.freeze

def grown_log(numbers, bytes)
  log = +""
  log << LINES[numbers.below(50)] while log.bytesize < bytes
  log
end

def grown_table(numbers, rows)
  table = []
  rows.times do |row|
    cells = []
    (2 + numbers.below(30)).times { |column| cells << row + column }
    table << cells
  end
  table
end

logs = Array.new(80)
tables = Array.new(8)
queue = []
checksum = 0
Integer(ARGV[0] || 520).times do |round|
  log = grown_log(numbers, 20_000 + numbers.below(600_000))
  logs[numbers.below(80)] = log
  table = grown_table(numbers, 200 + numbers.below(900))
  tables[round % 8] = table
  400.times { |i| queue.push(i * round) }
  300.times { queue.shift }
  checksum = (checksum * 31 + log.bytesize + table.sum(&:size) + queue.size) & 0xffff_ffff
end
puts "#{logs.compact.sum(&:bytesize)} bytes of logs, #{queue.size} queued, checksum #{checksum}"
