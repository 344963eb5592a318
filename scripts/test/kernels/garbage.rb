# Makes many times as much garbage as there is memory, and keeps little of it.
#   garbage.rb MIB
kept = {}
(Integer(ARGV[0]) * 4).times do |round|
  text = "#{round} " * 40_000
  kept[round % 50] = [round, text[0, 1000]]
  Array.new(200) { |index| [index, "object #{index}"] }
end
abort "lost" unless kept.values.all? { |round, text| text == ("#{round} " * 1000)[0, 1000] }
puts "ok"
