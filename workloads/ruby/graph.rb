# frozen_string_literal: true

# A road map that lives as long as the program, and searches over it: a large old heap with
# many references, a steady stream of young objects, some of which are stored into old ones.
#   graph.rb [PLACES] [SEARCHES]
require_relative "figures"
require_relative "numbers"

class Place
  attr_reader :number, :name, :roads
  attr_accessor :last_visit

  def initialize(number)
    @number = number
    @name = "place #{number}"
    @roads = []
  end
end

Road = Struct.new(:to, :metres)
Visit = Struct.new(:search, :metres, :from)

# The nearest first; ties go to the one that came first.
class NearestFirst
  def initialize
    @buckets = {}
    @nearest = 0
    @size = 0
  end

  def push(metres, place)
    (@buckets[metres / 100] ||= []) << [metres, place]
    @size += 1
  end

  def pop
    return if @size.zero?

    @nearest += 1 until @buckets[@nearest]
    bucket = @buckets[@nearest]
    found = bucket.shift
    @buckets.delete(@nearest) if bucket.empty?
    @size -= 1
    found
  end
end

def connect(places, numbers)
  side = Math.sqrt(places.size).to_i
  places.each_with_index do |place, at|
    [at + 1, at + side, at + side + 1, numbers.below(places.size)].each do |other|
      next unless places[other]

      metres = 100 + numbers.below(900)
      place.roads << Road.new(places[other], metres)
      places[other].roads << Road.new(place, metres)
    end
  end
end

# Visits places in the order of their distance until `limit` of them were reached.
def search(number, start, limit)
  queue = NearestFirst.new
  queue.push(0, [start, nil])
  reached = []
  while reached.size < limit && (metres, (place, from) = queue.pop)
    next if place.last_visit&.search == number

    place.last_visit = Visit.new(number, metres, from)
    reached << place
    place.roads.each { |road| queue.push(metres + road.metres, [road.to, place]) unless road.to.last_visit&.search == number }
  end
  reached
end

numbers = Numbers.new(41)
places = Array.new(Integer(ARGV[0] || 60_000)) { |number| Place.new(number) }
connect(places, numbers)
checksum = 0
Integer(ARGV[1] || 45).times do |number|
  reached = search(number, places[numbers.below(places.size)], 1200)
  last = reached.last
  checksum = (checksum * 31 + last.last_visit.metres + last.name.size) & 0xffff_ffff
end
puts "#{places.sum { |place| place.roads.size }} roads, checksum #{checksum}"
