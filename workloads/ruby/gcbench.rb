# frozen_string_literal: true

# In the style of GCBench: a lasting tree and a lasting array of floats in the background,
# while trees are built from the root down (storing into old nodes) and from the leaves up.
#   gcbench.rb [LASTING_DEPTH]
require_relative "figures"

class Node
  attr_accessor :left, :right, :first, :second

  def initialize(left = nil, right = nil)
    @left = left
    @right = right
    @first = 0
    @second = 0
  end
end

def nodes_in(depth) = (1 << (depth + 1)) - 1

# The parent exists before its children: every store is into an older object.
def fill(depth, node)
  return if depth.zero?

  node.left = Node.new
  node.right = Node.new
  fill(depth - 1, node.left)
  fill(depth - 1, node.right)
end

# The children exist first: no store into an older object.
def grown(depth) = depth.zero? ? Node.new : Node.new(grown(depth - 1), grown(depth - 1))

def count(node) = node ? 1 + count(node.left) + count(node.right) : 0

lasting_depth = Integer(ARGV[0] || 16)
work = 5 * nodes_in(lasting_depth)

lasting = Node.new
fill(lasting_depth, lasting)
floats = Array.new(500_000) { |i| i.zero? ? 0.0 : 1.0 / i }

4.step(lasting_depth, 4) do |depth|
  rounds = work / nodes_in(depth)
  nodes = 0
  rounds.times do
    root = Node.new
    fill(depth, root)
    nodes += count(root)
    nodes += count(grown(depth))
  end
  puts "depth #{depth}: #{rounds} rounds, #{nodes} nodes"
end
puts "lasting: #{count(lasting)} nodes, float #{floats[1000]}"
