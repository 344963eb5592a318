claim "eight threads that allocate at once lose no object" do
  ruby_ok <<~'RUBY'
    results = Array.new(8) do |t|
      Thread.new do
        kept = []
        20_000.times do |i|
          kept << "thread #{t} item #{i}" if i % 10 == 0
          [i, i.to_s, { i => t }]
        end
        kept
      end
    end.map(&:value)
    results.each_with_index do |kept, t|
      abort "count" unless kept.size == 2_000
      kept.each_with_index { |text, i| abort "torn: #{text}" unless text == "thread #{t} item #{i * 10}" }
    end
    puts "ok"
  RUBY
end

claim "collections forced from one thread keep what other threads hold only on their stacks" do
  ruby_ok <<~'RUBY'
    stop = false
    collector = Thread.new { GC.start until stop }
    workers = Array.new(4) do |t|
      Thread.new do
        40.times do |round|
          local = Array.new(50) { |i| "#{t}-#{round}-#{i}" }
          Thread.pass
          local.each_with_index { |text, i| abort "lost #{text}" unless text == "#{t}-#{round}-#{i}" }
        end
      end
    end
    workers.each(&:join)
    stop = true
    collector.join
    puts "ok"
  RUBY
end

claim "two thousand threads come and go, each with its locals" do
  ruby_ok <<~'RUBY'
    sum = 0
    20.times do |batch|
      sum += Array.new(100) { |i| Thread.new { Thread.current[:mine] = "v#{i}"; GC.start if i == 50; Thread.current[:mine][1..].to_i } }.sum(&:value)
    end
    abort sum.to_s unless sum == 20 * 4950
    puts "ok"
  RUBY
end

claim "a thousand sleeping threads are scanned and freed" do
  ruby_ok <<~'RUBY', limit: 90
    queue = Queue.new
    threads = Array.new(1_000) { |i| Thread.new { held = "held #{i}"; queue.pop; held } }
    3.times { GC.start }
    1_000.times { queue << true }
    threads.each_with_index { |thread, i| abort "lost" unless thread.value == "held #{i}" }
    threads = nil
    GC.start
    puts "ok"
  RUBY
end

claim "a killed thread and a raising one release what they held" do
  ruby_ok <<~'RUBY'
    500.times do |i|
      thread = Thread.new { data = "x" * 1_000; sleep; data }
      Thread.pass until thread.stop?
      i.even? ? thread.kill : thread.raise("stop")
      thread.report_on_exception = false
      begin
        thread.join
      rescue RuntimeError => error
        abort error.message unless error.message == "stop"
      end
    end
    GC.start
    puts "ok"
  RUBY
end

claim "mutexes, condition variables and queues pass objects intact" do
  ruby_ok <<~'RUBY'
    queue = SizedQueue.new(16)
    producers = Array.new(3) { |p| Thread.new { 5_000.times { |i| queue << [p, i, "payload #{i}" * 3] } } }
    seen = Hash.new(-1)
    consumer = Thread.new do
      15_000.times do
        producer, i, text = queue.pop
        abort "order" unless seen[producer] + 1 == i
        abort "text" unless text == "payload #{i}" * 3
        seen[producer] = i
      end
    end
    [*producers, consumer].each(&:join)
    puts "ok"
  RUBY
end

claim "ten thousand threads at once keep what only their stacks hold" do
  ruby_ok <<~'RUBY', limit: 240
    queue = Queue.new
    threads = []
    begin
      10_000.times { |i| threads << Thread.new { held = "held #{i}"; queue.pop; held } }
    rescue ThreadError
      # The system's limit; ten thousand stacks that are fibers' are in fibers_test.rb.
      abort "only #{threads.size} threads" if threads.size < 1_000
    end
    3.times { GC.start }
    threads.size.times { queue << true }
    threads.each_with_index { |thread, i| abort "lost #{i}" unless thread.value == "held #{i}" }
    puts "ok"
  RUBY
end

claim "what a thread's methods make does not grow old because an old object refers to the thread", only: "ashlar" do
  ruby_ok <<~'RUBY'
    POOL = [Thread.current].freeze
    5.times { GC.start }
    before = GC.stat(:old_objects)
    20.times do
      made = Array.new(1_000) { Object.new }
      GC.start(full_mark: false)
      made.clear
    end
    grown = GC.stat(:old_objects) - before
    abort "#{grown} grew old" unless grown < 2_000
    puts "ok"
  RUBY
end
