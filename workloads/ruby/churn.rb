# frozen_string_literal: true

# Hashes and arrays the way everyday code uses them: index, group, count, sort, merge,
# slice; most of it dies young, a cache of the last results stays.
#   churn.rb [ROUNDS]
require_relative "figures"
require_relative "numbers"

numbers = Numbers.new(11)
kept = {}
checksum = 0
Integer(ARGV[0] || 450).times do |round|
  rows = Array.new(800) { |i| { id: i, group: numbers.below(40), name: "row #{numbers.below(5000)}", amount: numbers.below(1000) } }
  by_group = rows.group_by { |row| row[:group] }
  totals = by_group.transform_values { |group| group.sum { |row| row[:amount] } }
  names = rows.map { |row| row[:name] }.tally.select { |_, times| times > 1 }
  best = rows.sort_by { |row| [-row[:amount], row[:id]] }.first(50).map { |row| row.merge(rank: row[:id] % 7) }
  pairs = rows.each_slice(4).map { |a, b, c, d| [a[:id] + b[:id], [c[:amount], d[:amount]].max] }.to_h
  index = rows.to_h { |row| ["#{row[:group]}/#{row[:id]}", row] }
  index.delete_if { |_, row| row[:amount] < 200 }
  kept[round % 16] = [totals, best, index]
  checksum = (checksum * 31 + totals.values.max + names.size + best.sum { |row| row[:rank] } + pairs.size + index.size) & 0xffff_ffff
end
puts "#{kept.size} kept, checksum #{checksum}"
