# frozen_string_literal: true

# Many complete binary trees of growing depth, each built, counted and dropped, while one
# tree of full depth stays alive.
#   binary_trees.rb [DEPTH]
require_relative "figures"

class Tree
  attr_reader :left, :right

  def initialize(depth)
    return if depth.zero?

    @left = Tree.new(depth - 1)
    @right = Tree.new(depth - 1)
  end

  def count = @left ? 1 + @left.count + @right.count : 1
end

deepest = Integer(ARGV[0] || 16)
lasting = Tree.new(deepest)
4.step(deepest, 3) do |depth|
  trees = 1 << (deepest - depth + 4)
  nodes = 0
  trees.times { nodes += Tree.new(depth).count }
  puts "#{trees} trees of depth #{depth}: #{nodes} nodes"
end
puts "lasting tree: #{lasting.count} nodes"
