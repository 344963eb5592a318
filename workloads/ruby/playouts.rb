# frozen_string_literal: true

# Random games of Go on a small board, as a Monte-Carlo player makes them: very many calls
# of short methods, boards copied for each game, small arrays for groups of stones.
#   playouts.rb [GAMES]
require_relative "figures"
require_relative "numbers"

class Board
  SIZE = 9
  STRIDE = SIZE + 2
  POINTS = (1..SIZE).flat_map { |y| (1..SIZE).map { |x| y * STRIDE + x } }.freeze
  STEPS = [-1, 1, -STRIDE, STRIDE].freeze
  OTHER = { black: :white, white: :black }.freeze

  attr_reader :captured

  def initialize
    @stones = Array.new(STRIDE * STRIDE, :edge)
    POINTS.each { |point| @stones[point] = nil }
    @captured = { black: 0, white: 0 }
    @forbidden = nil
  end

  def initialize_copy(original)
    super
    @stones = @stones.dup
    @captured = @captured.dup
  end

  def empty?(point) = @stones[point].nil?
  def neighbours(point) = STEPS.map { |step| point + step }

  def allowed?(point, colour)
    empty?(point) && point != @forbidden && !own_eye?(point, colour) && breathes?(point, colour)
  end

  def play(point, colour)
    @stones[point] = colour
    taken = neighbours(point).flat_map { |near| @stones[near] == OTHER[colour] ? capture(near) : [] }
    @captured[colour] += taken.size
    @forbidden = taken.size == 1 ? taken.first : nil
  end

  def score(colour)
    POINTS.count { |point| @stones[point] == colour || (empty?(point) && own_eye?(point, colour)) } + @captured[colour]
  end

  private

  def own_eye?(point, colour)
    neighbours(point).all? { |near| @stones[near] == colour || @stones[near] == :edge }
  end

  def breathes?(point, colour)
    return true if neighbours(point).any? { |near| empty?(near) }

    @stones[point] = colour
    alive = neighbours(point).any? { |near| @stones[near] == OTHER[colour] && liberties(near).zero? } || !liberties(point).zero?
    @stones[point] = nil
    alive
  end

  def capture(point)
    group, free = group_of(point)
    return [] unless free.empty?

    group.each { |stone| @stones[stone] = nil }
  end

  def liberties(point) = group_of(point).last.size

  # The stones connected with the one at `point`, and the empty points beside them.
  def group_of(point)
    colour = @stones[point]
    group = [point]
    free = []
    group.each do |stone|
      neighbours(stone).each do |near|
        if @stones[near] == colour
          group << near unless group.include?(near)
        elsif empty?(near)
          free << near unless free.include?(near)
        end
      end
    end
    [group, free]
  end
end

class Playout
  def initialize(board, numbers)
    @board = board.dup
    @numbers = numbers
  end

  def winner
    colour = :black
    passes = moves = 0
    while passes < 2 && moves < 200
      point = choose(colour)
      point ? @board.play(point, colour) : nil
      passes = point ? 0 : passes + 1
      moves += 1
      colour = Board::OTHER[colour]
    end
    @board.score(:black) > @board.score(:white) + 5 ? :black : :white
  end

  private

  def choose(colour)
    start = @numbers.below(Board::POINTS.size)
    Board::POINTS.size.times do |i|
      point = Board::POINTS[(start + i) % Board::POINTS.size]
      return point if @board.allowed?(point, colour)
    end
    nil
  end
end

numbers = Numbers.new(3)
board = Board.new
wins = Array.new(Integer(ARGV[0] || 140)) { Playout.new(board, numbers).winner }.tally
puts wins.sort.map { |colour, games| "#{colour} #{games}" }.join(", ")
