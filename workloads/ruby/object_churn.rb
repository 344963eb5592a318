# frozen_string_literal: true

# A small simulation of a post office: letters are written, sorted, forwarded and thrown
# away. Every step makes objects of a few widths that die within moments.
#   object_churn.rb [DAYS]
require_relative "figures"
require_relative "numbers"

Address = Struct.new(:street, :number, :town)
Stamp = Data.define(:cents, :motif)

class Letter
  attr_reader :from, :to, :stamp, :text

  def initialize(from, to, stamp, text)
    @from = from
    @to = to
    @stamp = stamp
    @text = text
  end

  def answered = Letter.new(@to, @from, @stamp.with(cents: @stamp.cents + 5), "re: #{@text}"[0, 60])
end

class Office
  def initialize(numbers)
    @numbers = numbers
    @towns = Array.new(24) { |i| "town #{i}" }
  end

  def write_letter
    Letter.new(address, address, Stamp.new(cents: 80 + @numbers.below(40), motif: :stone), "letter #{@numbers.below(100_000)}")
  end

  def deliver(letters)
    routes = letters.group_by { |letter| letter.to.town }
    routes.flat_map { |_, bag| bag.sort_by { |letter| [letter.to.street, letter.to.number] }.map { |letter| answer(letter) } }.compact
  end

  private

  def address = Address.new("street #{@numbers.below(300)}", @numbers.below(90) + 1, @towns[@numbers.below(24)])
  def answer(letter) = @numbers.below(3).zero? ? nil : letter.answered
end

numbers = Numbers.new(23)
office = Office.new(numbers)
waiting = []
checksum = 0
Integer(ARGV[0] || 130).times do |day|
  waiting.concat(Array.new(900) { office.write_letter })
  waiting = office.deliver(waiting)
  waiting.shift(waiting.size - 1500) if waiting.size > 1500
  checksum = (checksum * 31 + waiting.sum { |letter| letter.stamp.cents + letter.text.size }) & 0xffff_ffff
end
puts "#{waiting.size} letters on their way, checksum #{checksum}"
