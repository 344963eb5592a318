# frozen_string_literal: true

# A splay tree with a payload in every node: a large live heap; a small part of it is
# replaced all the time, so most collections find most objects alive.
#   splay.rb [NODES] [CHANGES]
require_relative "figures"
require_relative "numbers"

class SplayTree
  class Node
    attr_accessor :left, :right
    attr_reader :key, :payload

    def initialize(key, payload)
      @key = key
      @payload = payload
    end
  end

  attr_reader :root

  def insert(key, payload)
    node = Node.new(key, payload)
    unless @root
      @root = node
      return true
    end
    splay(key)
    return false if @root.key == key

    if key < @root.key
      node.left = @root.left
      node.right = @root
      @root.left = nil
    else
      node.right = @root.right
      node.left = @root
      @root.right = nil
    end
    @root = node
    true
  end

  def remove(key)
    splay(key)
    return unless @root.key == key

    removed = @root
    if removed.left
      right = removed.right
      @root = removed.left
      splay(key)
      @root.right = right
    else
      @root = removed.right
    end
    removed
  end

  # The key at or next to `key`, moved to the root.
  def nearest(key)
    splay(key)
    @root.key
  end

  # Every payload in the order of the keys.
  def each_payload
    pending = []
    node = @root
    while node || !pending.empty?
      while node
        pending << node
        node = node.left
      end
      node = pending.pop
      yield node.payload
      node = node.right
    end
  end

  private

  # Top-down splaying: the path to `key` is cut into a left and a right tree, which hang
  # on `border` until they are joined below the new root.
  def splay(key)
    border = left = right = Node.new(nil, nil)
    node = @root
    loop do
      if key < node.key
        child = node.left or break
        if key < child.key
          node.left = child.right
          child.right = node
          node = child
          child = node.left or break
        end
        right.left = node
        right = node
        node = child
      elsif key > node.key
        child = node.right or break
        if key > child.key
          node.right = child.left
          child.left = node
          node = child
          child = node.right or break
        end
        left.right = node
        left = node
        node = child
      else
        break
      end
    end
    left.right = node.left
    right.left = node.right
    node.left = border.right
    node.right = border.left
    @root = node
  end
end

def payload(depth, key)
  if depth.zero?
    { values: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9], text: "leaf of #{key}" }
  else
    [payload(depth - 1, key), payload(depth - 1, key)]
  end
end

def weight(payload)
  payload.is_a?(Array) ? payload.sum { |part| weight(part) } : payload[:values].size + payload[:text].size
end

# A payload of its own under a key that is not in the tree yet.
def insert_fresh(tree, numbers)
  loop do
    key = numbers.below(1 << 30)
    return if tree.insert(key, payload(4, key))
  end
end

nodes = Integer(ARGV[0] || 15_000)
changes = Integer(ARGV[1] || 20_000)
numbers = Numbers.new(17)
tree = SplayTree.new
nodes.times { insert_fresh(tree, numbers) }
changes.times do
  insert_fresh(tree, numbers)
  tree.remove(tree.nearest(numbers.below(1 << 30)))
end

total = left = 0
tree.each_payload do |part|
  left += 1
  total = (total * 31 + weight(part)) & 0xffff_ffff
end
puts "#{left} nodes, checksum #{total}"
