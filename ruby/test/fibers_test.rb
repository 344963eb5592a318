claim "ten thousand suspended fibers keep what only their stacks hold" do
  ruby_ok <<~'RUBY', limit: 90
    fibers = Array.new(10_000) do |i|
      fiber = Fiber.new { held = "fiber #{i}"; Fiber.yield; held }
      fiber.resume
      fiber
    end
    3.times { GC.start }
    fibers.each_with_index { |fiber, i| abort "lost #{i}" unless fiber.resume == "fiber #{i}" }
    puts "ok"
  RUBY
end

claim "fibers dropped while suspended are freed" do
  ruby_ok <<~'RUBY'
    20.times do
      500.times { f = Fiber.new { big = "y" * 10_000; Fiber.yield; big }; f.resume }
      GC.start
    end
    alive = ObjectSpace.each_object(Fiber).count
    abort "#{alive} fibers alive" if alive > 1_000
    puts "ok"
  RUBY
end

claim "enumerators driven from outside survive collections between steps" do
  ruby_ok <<~'RUBY'
    words = Enumerator.new { |y| 1_000.times { |i| y << "word #{i}" } }
    1_000.times do |i|
      abort "lost" unless words.next == "word #{i}"
      GC.start(full_mark: i % 100 == 0) if i % 10 == 0
    end
    puts "ok"
  RUBY
end

claim "a fiber scheduler that sleeps and wakes fibers allocates safely" do
  ruby_ok <<~'RUBY'
    class Scheduler
      def initialize = @ready = []
      def fiber(&block) = Fiber.new(blocking: false, &block).tap(&:resume)
      def kernel_sleep(seconds = nil) = (@ready << Fiber.current; Fiber.yield)
      def block(*) = Fiber.yield
      def unblock(_, fiber) = @ready << fiber
      def io_wait(*) = raise("unused")
      def fiber_interrupt(*) = raise("unused")
      def close = (@ready.shift.resume until @ready.empty?)
    end
    finished = []
    Thread.new do
      Fiber.set_scheduler(Scheduler.new)
      200.times do |i|
        Fiber.schedule { text = "job #{i}"; 5.times { sleep 0; Array.new(50) { |k| k.to_s } }; finished << text }
      end
    end.join
    abort finished.size.to_s unless finished.sort == Array.new(200) { "job #{_1}" }.sort
    puts "ok"
  RUBY
end
