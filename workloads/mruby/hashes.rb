# Hashes: large ones with integers and strings for keys that grow and lose entries, and many small ones.
#   hashes.rb [ENTRIES]
entries = (ARGV[0] || 100000).to_i
by_number = {}
by_name = {}
entries.times do |index|
  by_number[index * 7919 % 1000003] = index
  by_name["name#{index}"] = { index: index, square: index * index }
end
sum = 0
by_name.each { |name, record| sum += record[:square] % 97 + name.size }
entries.times { |index| by_name.delete("name#{index}") if index % 3 == 0 }
(entries * 2).times { |index| sum += (by_number[index] || 1) % 13 }
puts sum + by_name.size
