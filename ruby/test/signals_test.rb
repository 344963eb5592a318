claim "signals delivered in the middle of allocation run their handlers" do
  ruby_ok <<~'RUBY'
    seen = 0
    trap("USR1") { seen += 1; "handler #{seen}" * 10 }
    me = Process.pid
    sender = fork { 300.times { Process.kill("USR1", me); sleep 0.001 }; exit!(0) }
    kept = []
    until Process.wait(sender, Process::WNOHANG)
      kept << "kept #{kept.size}"
      Array.new(20) { |i| i.to_s }
      kept.clear if kept.size > 200_000
    end
    abort "lost" unless kept.each_with_index.all? { |text, i| text == "kept #{i}" }
    abort "no signal seen" if seen.zero?
    puts "ok"
  RUBY
end

claim "a handler may collect" do
  ruby_ok <<~'RUBY'
    collected = 0
    trap("USR2") { GC.start; collected += 1 }
    kept = Array.new(5_000) { |i| "k#{i}" }
    20.times { Process.kill("USR2", Process.pid); Array.new(500) { |i| i.to_s } }
    sleep 0.01 until collected >= 1
    abort "lost" unless kept.each_with_index.all? { |text, i| text == "k#{i}" }
    puts "ok"
  RUBY
end

claim "an interrupt in a loop of allocations can be rescued and ensure runs" do
  ruby_prints("ensured\nrescued\n", <<~'RUBY')
    trap("INT", "DEFAULT") # a job in the background is started with interrupts ignored
    me = Process.pid
    fork { sleep 0.2; Process.kill("INT", me); exit!(0) }
    begin
      begin
        loop { Array.new(100) { |i| i.to_s } }
      ensure
        puts "ensured"
      end
    rescue Interrupt
      puts "rescued"
    end
    Process.waitall
  RUBY
end

claim "a program ended by SIGTERM runs at_exit and finalizers" do
  ruby_ok = ruby(<<~'RUBY')
    $stdout.sync = true
    KEPT = Object.new
    ObjectSpace.define_finalizer(KEPT, proc { puts "finalized" })
    at_exit { puts "at_exit" }
    Process.kill("TERM", Process.pid)
    loop { Array.new(100) { |i| i.to_s } }
  RUBY
  check_equal("at_exit\nfinalized\n", ruby_ok.out) { ruby_ok.describe }
  check_equal(15, ruby_ok.status.termsig) { ruby_ok.describe }
end

claim "Timeout interrupts allocation without losing objects" do
  ruby_ok <<~'RUBY'
    require "timeout"
    kept = Array.new(10_000) { |i| "kept #{i}" }
    20.times do
      Timeout.timeout(0.02) { loop { Array.new(200) { |i| "dropped #{i}" } } }
    rescue Timeout::Error
    end
    abort "lost" unless kept.each_with_index.all? { |text, i| text == "kept #{i}" }
    puts "ok"
  RUBY
end
