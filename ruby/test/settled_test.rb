# Objects that major collections pass over. Where memory is weighed against CPU time, a full collection may follow at any time.
NO_FULL = { "ASHLAR_SPACE_OVERHEAD" => "40", **stress("no-minor") }.freeze
MAJOR_ONLY = { **NO_FULL, **stress("no-minor", "verify", "poison") }.freeze

claim "code settles in a few collections, and few of its objects are traced by a major one", only: "ashlar" do
  ruby_ok <<~'RUBY', env: NO_FULL
    require "json"
    require "optparse"
    4.times { GC.start(full_mark: false) }
    settled, boundary, complete = GC.stat.values_at(:settled_objects, :settled_boundary_objects, :complete_gc_count)
    abort [settled, boundary, complete].inspect unless settled > 10_000 && boundary < settled / 20 && complete.zero?
    puts "ok"
  RUBY
end

claim "a settled object goes with a full collection and not with a major one", only: "ashlar" do
  ruby_ok <<~'RUBY', env: MAJOR_ONLY
    def alive = ObjectSpace.each_object(Struct).grep($type).size
    $type = Struct.new(:value)
    $kept = Array.new(1000) { $type.new(_1) }
    5.times { GC.start(full_mark: false) }
    $kept = nil
    GC.start(full_mark: false)
    major = alive
    GC.start
    abort [major, alive].inspect unless major >= 990 && alive <= 10
    puts "ok"
  RUBY
end

claim "what is stored into settled objects lives, however it is stored", only: "ashlar" do
  ruby_ok <<~'RUBY', env: MAJOR_ONLY, limit: 120
    Pair = Struct.new(:left, :right)
    class Holder
      attr_accessor :value
      @@shared = nil
      class << self
        def shared = @@shared
        def share(value) = @@shared = value
      end
    end
    array, hash, pair, holder, string = [nil] * 100, { nil => nil }, Pair.new, Holder.new, +"named"
    block = proc { |value| array[0] = value }
    4.times { GC.start(full_mark: false) }
    30.times do |round|
      text = "round #{round} " * 10
      array[round + 1] = text.dup
      array.concat([text.dup])
      hash[text.dup] = text.dup
      pair.left, pair.right = text.dup, [text.dup]
      holder.value = text.dup
      string.instance_variable_set(:@note, text.dup)
      Holder.share(text.dup)
      Holder.const_set("ROUND_#{round}", text.dup)
      Holder.define_method("round_#{round}") { text }
      block.call(text.dup)
      GC.start(full_mark: false)
      found = [array[round + 1], array.last, hash.keys.last, hash.values.last, pair.left, pair.right[0], holder.value, string.instance_variable_get(:@note),
               Holder.shared, Holder.const_get("ROUND_#{round}"), holder.public_send("round_#{round}"), array[0]]
      abort "#{round}: #{found.inspect}" unless found == [text] * 12
    end
    puts "ok"
  RUBY
end

{ "at once" => [{}, "collect-every:3000"], "in slices" => [{}, "slice-cells:300"],
  "by several threads" => [{ "ASHLAR_THREADS" => "4", "ASHLAR_INCREMENTAL" => "0" }, "parallel-cells:0", "collect-every:3000"] }.each do |how, (options, *switches)|
  claim "settled code calls methods that come, change and go (marked #{how})", only: "ashlar" do
    ruby_ok <<~'RUBY', "-W0", env: { **NO_FULL, **options, **stress("no-minor", "poison", "verify:0", *switches) }, limit: 180
      class Base
        def name = "base"
        def deep = name
      end
      def call(object) = [object.name, object.deep, object.own].join(" ")
      4.times { GC.start(full_mark: false) }
      400.times do |round|
        kind = Class.new(Base) do
          define_method(:own) { round }
          def name = "kind of #{super}"
        end
        expected = "kind of base kind of base #{round}"
        3.times { abort call(kind.new) unless call(kind.new) == expected }
        if round % 7 == 0
          Base.class_eval { def name = "base" }
          kind.class_eval { def own = "again" }
          abort call(kind.new) unless call(kind.new) == "kind of base kind of base again"
        end
        kind.send(:remove_method, :name)
        abort call(kind.new) unless call(kind.new).start_with?("base base")
        GC.start(full_mark: false) if round % 5 == 0
      end
      puts "ok"
    RUBY
  end
end
