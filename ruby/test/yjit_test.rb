PROGRAM = <<~'RUBY'
  class Node
    attr_accessor :left, :right, :value
    def initialize(value) = @value = value
    def insert(value)
      if value < @value
        @left ? @left.insert(value) : @left = Node.new(value)
      else
        @right ? @right.insert(value) : @right = Node.new(value)
      end
    end
    def each(&block)
      @left&.each(&block)
      yield @value
      @right&.each(&block)
    end
  end
  random = Random.new(42)
  checks = 20.times.map do |round|
    tree = Node.new(500)
    2_000.times { tree.insert(random.rand(100_000)) }
    sum = 0
    tree.each { |value| sum += value }
    words = Hash.new(0)
    3_000.times { |i| words["w#{i % 97}"] += 1; words[:"s#{i % 31}"] += 1 }
    Struct.new(:a, :b).new(sum, words.size).to_a.sum
  end
  puts checks.sum
RUBY

claim "a program gives the same answer with YJIT off and on" do
  interpreted = ruby(PROGRAM)
  check(interpreted.ok?) { interpreted.describe }
  compiled = ruby(PROGRAM, "--yjit", "--yjit-call-threshold=2")
  check(compiled.ok?) { compiled.describe }
  check_equal(interpreted.out, compiled.out)
end

claim "code that YJIT compiled keeps the objects it refers to" do
  ruby_ok <<~'RUBY', "--yjit", "--yjit-call-threshold=1"
    200.times do |i|
      Object.class_eval("def constant_#{i} = ['literal #{i}', :symbol_#{i}, 1.5e300 + #{i}]")
      3.times { send("constant_#{i}") }
    end
    20.times { GC.start; Array.new(20_000) { |i| i.to_s } }
    200.times { |i| abort "lost" unless send("constant_#{i}") == ["literal #{i}", :"symbol_#{i}", 1.5e300 + i] }
    puts "ok"
  RUBY
end

claim "invalidated code is freed and methods redefined under YJIT stay right" do
  ruby_ok <<~'RUBY', "--yjit", "--yjit-call-threshold=1"
    class Subject; end
    300.times do |i|
      Subject.class_eval("def answer = #{i}")
      subject = Subject.new
      abort "stale" unless 5.times.all? { subject.answer == i }
      GC.start if i % 25 == 0
    end
    RubyVM::YJIT.code_gc if RubyVM::YJIT.respond_to?(:code_gc)
    puts "ok"
  RUBY
end

claim "YJIT enabled at run time in a program with a full heap goes on" do
  ruby_ok <<~'RUBY'
    kept = Array.new(50_000) { |i| "kept #{i}" }
    RubyVM::YJIT.enable
    sum = 0
    500.times { |k| kept.each_slice(1_000) { |part| sum += part[k % 1_000].size } }
    GC.start
    abort "lost" unless kept.each_with_index.all? { |text, i| text == "kept #{i}" }
    puts "ok"
  RUBY
end

claim "instance variables written by compiled code keep young objects alive" do
  ruby_ok <<~'RUBY', "--yjit", "--yjit-call-threshold=2"
    class Box
      attr_accessor :a, :b, :c
      def fill(i)
        @a = "a#{i}"
        @b = ["b#{i}"]
        @c = { i => "c#{i}" }
      end
    end
    boxes = Array.new(2_000) { Box.new }
    4.times { GC.start }
    boxes.each_with_index { |box, i| box.fill(i) }
    200_000.times { |i| i.to_s }
    GC.start(full_mark: false)
    boxes.each_with_index { |box, i| abort "lost" unless box.a == "a#{i}" && box.b == ["b#{i}"] && box.c == { i => "c#{i}" } }
    puts "ok"
  RUBY
end

claim "a forked process that marks compiled code does not copy its memory", only: "inside" do
  ruby_ok IN_A_CHILD + <<~'RUBY', "--yjit", "--yjit-call-threshold=1"
    3_000.times { |i| eval("def m#{i}(a) = a ? (a > #{i} ? a + 1 : a - 1) : 0") }
    3_000.times { |i| [1, nil, 5_000].each { |a| send(:"m#{i}", a) } }
    Process.warmup
    in_a_child do
      GC.start(full_mark: false)
      before = private_kib
      GC.start
      grown = private_kib - before
      # A compiled block takes 96 bytes. What grows is states of cells.
      blocks_kib = RubyVM::YJIT.runtime_stats[:compiled_block_count] * 96 / 1024
      abort "few blocks" if blocks_kib < 1_000
      abort "#{grown} KiB are copied, and the blocks take #{blocks_kib}" if grown > blocks_kib / 2
    end
  RUBY
end
