claim "a WeakMap forgets dead keys and keeps live ones" do
  ruby_ok <<~'RUBY'
    map = ObjectSpace::WeakMap.new
    kept = Array.new(300) { |i| "kept #{i}" }
    kept.each { |key| map[key] = key.size.to_s }
    held = kept.map { |key| map[key] }.compact
    def drop(map) = 1_000.times { |i| map["dropped #{i}"] = Object.new }
    drop(map)
    5.times { GC.start; Array.new(1_000) { Object.new } }
    live = map.keys.count { |key| key.start_with?("dropped") }
    abort "#{live} dead keys kept" if live > 100
    puts "ok"
  RUBY
end

claim "a WeakMap gives the value while both live, across minor and major collections" do
  ruby_ok <<~'RUBY'
    map = ObjectSpace::WeakMap.new
    pairs = Array.new(1_000) { |i| [Object.new, "value #{i}"] }
    pairs.each { |key, value| map[key] = value }
    10.times { |i| GC.start(full_mark: i.odd?); Array.new(5_000) { |k| k.to_s } }
    pairs.each { |key, value| abort "lost" unless map[key].equal?(value) }
    abort "size" unless map.size == 1_000
    puts "ok"
  RUBY
end

claim "a WeakKeyMap compares keys by value and drops dead ones" do
  ruby_ok <<~'RUBY'
    map = ObjectSpace::WeakKeyMap.new
    kept = Array.new(200) { |i| "key #{i}" }
    kept.each { |key| map[key] = key.upcase }
    def drop(map) = 1_000.times { |i| map["gone #{i}"] = 1 }
    drop(map)
    5.times { GC.start; Array.new(1_000) { Object.new } }
    kept.each_index { |i| abort "lost" unless map["key #{i}"] == "KEY #{i}" && map.getkey("key #{i}").equal?(kept[i]) }
    left = 1_000.times.count { |i| map.key?("gone #{i}") }
    abort "#{left} dead" if left > 100
    puts "ok"
  RUBY
end

claim "a WeakRef notices the death of its object" do
  ruby_ok <<~'RUBY'
    require "weakref"
    kept = "kept"
    alive = WeakRef.new(kept)
    def refs = Array.new(200) { |i| WeakRef.new("gone #{i}") }
    gone = refs
    5.times { GC.start; Array.new(1_000) { Object.new } }
    abort "kept died" unless alive.weakref_alive? && alive.size == 4
    dead = gone.count { |ref| !ref.weakref_alive? }
    abort "only #{dead} died" if dead < 150
    begin
      gone.find { |ref| !ref.weakref_alive? }.size
    rescue WeakRef::RefError
      puts "ok"
    end
  RUBY
end

claim "interned strings, symbols and method caches drop what died and find what lives" do
  ruby_ok <<~'RUBY'
    10.times do |round|
      5_000.times { |i| "symbol #{round} #{i}".to_sym; -"interned #{round} #{i}" }
      klass = Class.new { 50.times { |i| define_method("m#{i}") { i } } }
      50.times { |i| abort "method" unless klass.new.public_send("m#{i}") == i }
      GC.start
      abort "symbol" unless "symbol #{round} 7".to_sym.equal?("symbol #{round} 7".to_sym)
      abort "interned" unless (-"interned #{round} 7").equal?(-"interned #{round} 7")
    end
    abort "symbols stay" if Symbol.all_symbols.count { |symbol| symbol.start_with?("symbol 0") } > 4_000
    puts "ok"
  RUBY
end

claim "a weak map that is reached twice in one collection, young and from an old object, loses its dead entries" do
  ruby_ok <<~'RUBY'
    old = [nil]
    3.times { GC.start }
    GC.disable
    $map = ObjectSpace::WeakMap.new
    200.times { |i| $map[Object.new] = i }
    kept = Object.new
    $map[kept] = :kept
    old[0] = $map
    GC.start(full_mark: false)
    GC.start
    abort "size #{$map.size}" unless $map.size < 20 && $map[kept] == :kept
    GC.verify_internal_consistency
    puts "ok"
  RUBY
end
