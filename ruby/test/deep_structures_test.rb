# Structures so deep that following them by recursion would overflow the C stack. Collections
# run on threads too, whose stacks are smaller than the main one.
COLLECT = <<~'RUBY'
  def collect
    GC.start
    GC.start(full_mark: false)
    Thread.new { GC.start }.join
    Fiber.new { GC.start }.resume
  end
RUBY

claim "a linked list of ten million objects is kept whole, and freed" do
  ruby_ok COLLECT + <<~'RUBY', limit: 180
    class Link
      attr_reader :rest, :number
      def initialize(rest, number) = (@rest = rest; @number = number)
    end
    head = nil
    10_000_000.times { |i| head = Link.new(head, i) }
    collect
    expected = 10_000_000
    at = head
    while at
      abort "at #{expected}" unless at.number == expected -= 1
      at = at.rest
    end
    abort "short: #{expected}" unless expected == 0
    head = nil
    collect
    left = ObjectSpace.each_object(Link).count
    abort "#{left} left" if left > 1_000
    puts "ok"
  RUBY
end

{
  "arrays" => "[inner]",
  "hashes" => "{ 1 => inner }",
  "large hashes" => "(0..9).to_h { |i| [i, inner] }",
  "structs" => "Pair.new(inner, 1)",
  "closures" => "close(inner)",
  "strings' instance variables" => '"text".tap { |text| text.instance_variable_set(:@inner, inner) }',
  "enumerators" => "[inner].each",
  "exceptions" => "RuntimeError.new.tap { |error| error.instance_variable_set(:@inner, inner) }"
}.each do |what, nest|
  claim "half a million #{what} in each other are kept and freed" do
    ruby_ok COLLECT + <<~RUBY, limit: 180
      Pair = Struct.new(:inner, :number)
      def close(inner) = -> { inner }
      inner = []
      500_000.times { inner = #{nest} }
      before = ObjectSpace.count_objects[:TOTAL] - ObjectSpace.count_objects[:FREE]
      collect
      kept = ObjectSpace.count_objects[:TOTAL] - ObjectSpace.count_objects[:FREE]
      abort "\#{kept} of \#{before} kept" if kept < 500_000
      inner = nil
      collect
      left = ObjectSpace.count_objects[:TOTAL] - ObjectSpace.count_objects[:FREE]
      abort "\#{left} of \#{before} left" if left > kept - 450_000
      puts "ok"
    RUBY
  end
end
