# What an old object refers to for a while only. With so large a space overhead no major collection frees
# what has grown old.
claim "what a variable holds for a while does not grow old because an old object has the variable", only: "ashlar" do
  ruby_ok <<~'RUBY', env: { "ASHLAR_SPACE_OVERHEAD" => "1000" }
    class Session
      attr_accessor :answer
    end
    SESSION = Session.new
    SESSION.answer = nil
    captured = nil
    READER = proc { captured }
    grown = lambda do |&store|
      4.times { GC.start }
      before = GC.stat(:old_objects)
      30.times do
        store.call(Array.new(1_000) { Object.new })
        GC.start(full_mark: false)
      end
      GC.stat(:old_objects) - before
    end
    of_object = grown.call { SESSION.answer = _1 }
    of_block = grown.call { captured = _1 }
    abort "#{of_object} and #{of_block} of 30,000 grew old" unless of_object < 5_000 && of_block < 5_000
    puts "ok"
  RUBY
end

claim "what lasts in an old object that is written to again and again grows old with it", only: "ashlar" do
  ruby_ok <<~'RUBY', env: { "ASHLAR_SPACE_OVERHEAD" => "1000" }
    RING = Array.new(10)
    4.times { GC.start }
    before = GC.stat(:old_objects)
    30.times do |round|
      RING[round % 10] = Array.new(1_000) { Object.new }
      GC.start(full_mark: false)
    end
    grown = GC.stat(:old_objects) - before
    abort "#{grown} of 30,000 grew old" unless grown > 25_000
    puts "ok"
  RUBY
end

# Between slices the heap is not verified here: there are too many.
[%w[verify], %w[verify look-ahead], %w[slice-cells:1000 collect-every:3000]].each do |switches|
  claim "what such variables hold lives, also when they are not written to any more, with #{switches.join(" and ")}", only: "ashlar" do
    ruby_ok <<~'RUBY', env: stress("poison", *switches)
      Pair = Struct.new(:left, :right)
      Plain = Class.new { attr_accessor :value }
      pair, plain, captured = Pair.new, Plain.new, nil
      reader = proc { captured }
      4.times { GC.start(full_mark: false) }
      expected = nil
      check = -> { [pair.left, pair.right.first, plain.value[:key], reader.call.first] == [expected] * 4 or abort "lost #{expected}" }
      40.times do |round|
        # Every third time nothing is stored for some collections.
        unless round % 12 > 8
          expected = "answer #{round} " * 5
          pair.left, pair.right, plain.value, captured = expected.dup, [expected.dup], { key: expected.dup }, [expected.dup]
        end
        Array.new(2_000) { +"garbage #{round}" }
        GC.start(full_mark: false)
        check.call
      end
      GC.start
      check.call
      puts "ok"
    RUBY
  end
end
