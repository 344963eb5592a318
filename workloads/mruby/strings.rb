# Strings that grow, are cut up and joined again, and die; some of them live on for a while.
#   strings.rb [LINES]
lines = (ARGV[0] || 60000).to_i
recent = []
bytes = 0
lines.times do |line|
  text = "line #{line}:"
  20.times { |word| text << " word" << (line * word % 997).to_s }
  words = text.split(" ")
  joined = words.reverse.join("-")
  bytes += joined.size
  recent << joined.upcase
  recent.shift if recent.size > 2000
end
puts bytes + recent.size
