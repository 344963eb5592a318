# frozen_string_literal: true

# A script as people write them: options, a file that is read line by line, a count, the words as JSON. It is over in a moment,
# so that the start of Ruby is most of it.
#   short_script.rb [--top COUNT] [FILE]
require "json"
require "optparse"
require_relative "../ruby/figures"

options = { top: 10 }
OptionParser.new { |parser| parser.on("--top COUNT", Integer) { |count| options[:top] = count } }.parse!
words = Hash.new(0)
File.foreach(ARGV.fetch(0, __FILE__)) { |line| line.scan(/[a-z]+/i) { |word| words[word.downcase] += 1 } }
puts JSON.generate(words.max_by(options[:top]) { |word, count| [count, word] }.to_h)
