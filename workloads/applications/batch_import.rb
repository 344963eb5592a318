# frozen_string_literal: true

# A long batch: lines of an import are parsed, checked and entered into an index that grows to the end; then the index is
# summed up and written out. RSS is noted after every chunk of lines.
#   batch_import.rb [LINES]
require "digest"
require "time"
require_relative "memory_samples"
require_relative "../ruby/figures"
require_relative "../ruby/numbers"

# As if read from a file: the lines of one chunk.
class Lines
  CHUNK = 2_000
  CITIES = %w[Bergen Oslo Lund Turku Visby Riga Tartu Aarhus].freeze

  def initialize(count)
    @count = count
    @random = Numbers.new(9)
  end

  def each_chunk
    (@count / CHUNK).times { |chunk| yield Array.new(CHUNK) { |line| line(chunk * CHUNK + line) } }
  end

  private

  def line(number)
    "#{number};customer #{@random.below(@count / 4)};#{CITIES[@random.below(CITIES.size)]};2026-01-#{format("%02d", 1 + @random.below(31))};" \
      "#{@random.below(100)}.#{@random.below(90) + 10};#{@random.below(50).zero? ? "" : "delivered"}"
  end
end

class Import
  Customer = Struct.new(:name, :city, :orders, :total)
  Order = Struct.new(:number, :day, :amount)

  attr_reader :refused

  def initialize
    @customers = {}
    @refused = []
  end

  def enter(line)
    number, name, city, day, amount, state = line.split(";", -1)
    return @refused << "#{number}: no state" if state.empty?

    customer = @customers[name] ||= Customer.new(name, city, [], 0)
    order = Order.new(Integer(number), Time.strptime(day, "%Y-%m-%d").yday, Integer(amount.delete("."), 10))
    customer.orders << order if customer.orders.size < 3
    customer.total += order.amount
  end

  def report
    best = @customers.values.max_by(200) { |customer| [customer.total, customer.name] }
    cities = @customers.each_value.group_by(&:city).sort.map { |city, own| "#{city} #{own.size} #{own.sum(&:total)}" }
    [*best.map { |customer| "#{customer.name} #{customer.total} #{customer.orders.map(&:number).join(",")}" }, *cities].join("\n")
  end
end

import = Import.new
samples = MemorySamples.new
Lines.new(Integer(ARGV.fetch(0, "240000"))).each_chunk do |lines|
  lines.each { |line| import.enter(line) }
  samples.note(rss_mib: MemorySamples.resident_mib)
end
report = import.report
Figures.tell(settled_mib: samples.settled(:rss_mib), highest_mib: samples.highest(:rss_mib))
puts "#{import.refused.size} refused; #{Digest::SHA256.hexdigest(report)[0, 16]}"
