claim "what only a rare large request needs goes back to the system before the next one", only: "ashlar" do
  ruby_ok <<~'RUBY'
    KEPT = Array.new(20_000) { |i| "kept #{i}" }
    small = -> { Array.new(2_000) { |i| "small #{i}" } }
    large = -> { Array.new(400_000) { |i| "large #{i}" * 3 }; nil }
    cpu = -> { Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) }
    left = Array.new(8) do
      large.call
      till = cpu.call + 0.4
      small.call while cpu.call < till
      GC.stat(:heap_empty_pages)
    end
    # A large request takes 400 blocks. Now and then its garbage is found just before the next one begins.
    abort "#{left.inspect} empty blocks" unless left.sort[4] < 40
    puts "ok"
  RUBY
end
