# frozen_string_literal: true

# The smallest object there is, made and dropped at once: the price of allocation itself.
#   object_new.rb [OBJECTS]
require_relative "figures"

objects = Integer(ARGV[0] || 16_000_000)
made = 0
while made < objects
  Object.new
  made += 1
end
puts "made #{made}"
