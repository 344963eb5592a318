claim "object ids are stable, unique and found again" do
  ruby_ok <<~'RUBY', "-W0"
    objects = Array.new(5_000) { Object.new }
    ids = objects.map(&:object_id)
    abort "not unique" unless ids.uniq.size == ids.size
    3.times { GC.start }
    abort "moved" unless objects.map(&:object_id) == ids
    objects.each { |object| abort "lost" unless ObjectSpace._id2ref(object.object_id).equal?(object) }
    puts "ok"
  RUBY
end

claim "an id is never given twice, also after its object died" do
  ruby_ok <<~'RUBY'
    seen = {}
    20.times do
      2_000.times do
        id = Object.new.object_id
        abort "given twice" if seen[id]
        seen[id] = true
      end
      GC.start
    end
    puts "ok"
  RUBY
end

claim "looking up the id of a dead object and an id never given raise RangeError" do
  ruby_ok <<~'RUBY', "-W0"
    def dead_ids = Array.new(200) { Object.new.object_id }
    ids = dead_ids
    5.times { GC.start; Array.new(1_000) { Object.new } }
    recycled = ids.count do |id|
      ObjectSpace._id2ref(id)
      false
    rescue RangeError => error
      error.message.include?("recycled")
    end
    abort "only #{recycled} recycled" if recycled < 150
    begin
      ObjectSpace._id2ref(1 << 40)
    rescue RangeError => error
      puts "ok" if error.message.match?(/is not (an )?id value/)
    end
  RUBY
end

claim "ids and finalizers of many objects leave no memory behind" do
  ruby_ok <<~'RUBY'
    rss = -> { File.read("/proc/self/status")[/VmRSS:\s+(\d+)/, 1].to_i }
    CALLED = proc { }
    churn = -> { 20_000.times { object = Object.new; object.object_id; ObjectSpace.define_finalizer(object, CALLED) }; GC.start }
    5.times { churn.call }
    before = rss.call
    20.times { churn.call }
    grown = rss.call - before
    abort "grew by #{grown} kB" if grown > 30_000
    puts "ok"
  RUBY
end
