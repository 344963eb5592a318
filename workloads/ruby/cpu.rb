# frozen_string_literal: true

# An eight-bit processor and a picture unit, emulated: integers, arrays made once and
# method calls. It hardly allocates, so it shows what a collector costs when it has
# nothing to do.
#   cpu.rb [FRAMES]
require_relative "figures"

class Processor
  attr_reader :cycles

  def initialize(memory)
    @memory = memory
    @a = @x = @y = 0
    @carry = 0
    @zero = false
    @at = 0
    @cycles = 0
    @operations = %i[
      load_immediate load store_indexed add add_immediate increment_x compare_x branch_not_zero
      shift exclusive_or increment_y compare_y jump transfer_x transfer_y rotate
    ]
  end

  def run_until(cycle)
    send(@operations[fetch]) while @cycles < cycle
  end

  private

  def fetch
    value = @memory[@at]
    @at = (@at + 1) & 0xffff
    @cycles += 2
    value
  end

  def fetch_word = fetch | (fetch << 8)

  def result(value)
    @zero = value.zero?
    value
  end

  def load_immediate = @a = result(fetch)
  def load = @a = result(@memory[(fetch_word + @x) & 0xffff])

  def store_indexed
    base = fetch_word
    @memory[(base + @x + (@y << 5)) & 0xffff] = @a
    @cycles += 1
  end

  def plus(value)
    sum = @a + value + @carry
    @carry = sum > 0xff ? 1 : 0
    @a = result(sum & 0xff)
  end

  def add = plus(@memory[(fetch_word + @x) & 0xffff])
  def add_immediate = plus(fetch)
  def increment_x = @x = result((@x + 1) & 0xff)
  def increment_y = @y = result((@y + 1) & 0xff)
  def compare_x = result(@x - fetch)
  def compare_y = result(@y - fetch)

  def branch_not_zero
    offset = fetch
    return if @zero

    @at = (@at + (offset > 0x7f ? offset - 0x100 : offset)) & 0xffff
    @cycles += 1
  end

  def shift
    @carry = @a >> 7
    @a = result((@a << 1) & 0xff)
  end

  def exclusive_or = @a = result(@a ^ fetch)
  def jump = @at = fetch_word
  def transfer_x = @a = result(@x)
  def transfer_y = @a = result(@y)

  def rotate
    out = @a & 1
    @a = result((@a >> 1) | (@carry << 7))
    @carry = out
  end
end

# Draws 32 × 30 tiles of 8 × 8 dots from video memory, each dot through a palette.
class Picture
  WIDTH = 256
  HEIGHT = 240
  VIDEO = 0x2000
  attr_reader :dots

  def initialize(memory)
    @memory = memory
    @dots = Array.new(WIDTH * HEIGHT, 0)
    @palette = Array.new(64) { |i| (i * 37) & 0x3f }
    @patterns = Array.new(256 * 8) { |i| (i * 73 ^ i >> 3) & 0xff }
  end

  def draw
    y = 0
    while y < HEIGHT
      draw_line(y)
      y += 1
    end
  end

  private

  def draw_line(y)
    row = VIDEO + ((y >> 3) << 5)
    at = y * WIDTH
    tile = 0
    while tile < 32
      number = @memory[row + tile]
      bits = @patterns[(number << 3) + (y & 7)]
      dot = 7
      while dot >= 0
        @dots[at] = @palette[((bits >> dot) & 1) << 5 | number & 31]
        at += 1
        dot -= 1
      end
      tile += 1
    end
  end
end

frames = Integer(ARGV[0] || 170)
memory = Array.new(0x10000, 0)
# A program that fills the video memory with a moving pattern, for ever.
[0, 7, 13, 4, 3, 1, 0x00, 0x30, 9, 0x5a, 8, 15, 2, 0x00, 0x20, 5, 6, 32, 7, 0xee, 10, 14, 4, 1, 11, 30, 7, 0xe5, 12, 0, 0]
  .each_with_index { |byte, at| memory[at] = byte }
256.times { |i| memory[0x3000 + i] = (i * i) & 0xff }

processor = Processor.new(memory)
picture = Picture.new(memory)
checksum = 0
frames.times do |frame|
  processor.run_until((frame + 1) * 29_780)
  picture.draw
  checksum = (checksum * 31 + picture.dots[(frame * 977) % picture.dots.size] + picture.dots.sum) & 0xffff_ffff
end
puts "#{frames} frames, #{processor.cycles} cycles, checksum #{checksum}"
