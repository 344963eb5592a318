# frozen_string_literal: true

# Many complete binary trees of growing depth, each built, counted and dropped, while one
# tree of full depth stays alive.
#   binary_trees.rb [DEPTH]
require_relative "figures"

# A node is an array of its two children; a leaf has none.
def tree(depth) = depth.zero? ? [nil, nil] : [tree(depth - 1), tree(depth - 1)]

def count(node)
  left, right = node
  left ? 1 + count(left) + count(right) : 1
end

deepest = Integer(ARGV[0] || 16)
lasting = tree(deepest)
4.step(deepest, 3) do |depth|
  trees = 1 << (deepest - depth + 4)
  nodes = 0
  trees.times { nodes += count(tree(depth)) }
  puts "#{trees} trees of depth #{depth}: #{nodes} nodes"
end
puts "lasting tree: #{count(lasting)} nodes"
