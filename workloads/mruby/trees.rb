# Binary trees: many short-lived ones of every depth beside one that lives on.
#   trees.rb [DEPTH]
class Node
  def initialize(left, right)
    @left = left
    @right = right
  end

  def self.make(depth)
    depth == 0 ? new(nil, nil) : new(make(depth - 1), make(depth - 1))
  end

  def count
    @left ? 1 + @left.count + @right.count : 1
  end
end

depth = (ARGV[0] || 14).to_i
lasting = Node.make(depth)
sum = 0
4.step(depth, 2) do |at|
  (1 << (depth - at + 2)).times { sum += Node.make(at).count }
end
puts sum + lasting.count
