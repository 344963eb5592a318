# A small hash leaves the value of a deleted entry where it was, and only the key says that it is gone.

DELETED = <<~'RUBY'
  WAYS = {
    delete: ->(hash) { hash.delete(:gone) },
    shift: ->(hash) { hash.shift },
    delete_if: ->(hash) { hash.delete_if { |key, _| key == :gone } },
    keep_if: ->(hash) { hash.keep_if { |key, _| key == :kept } },
    reject!: ->(hash) { hash.reject! { |key, _| key == :gone } },
    select!: ->(hash) { hash.select! { |key, _| key == :kept } },
  }
  # Hashes whose first entry was deleted, and what it held.
  def delete(way, seen, made = {}) = Array.new(200) { made.dup.merge!(gone: Object.new, kept: "kept").tap { |hash| seen[hash[:gone]] = true; WAYS[way].(hash) } }
RUBY

claim "what was deleted from a small hash dies while the hash lives" do
  ruby_ok DELETED + <<~'RUBY'
    WAYS.each_key do |way|
      [{}, {}.compare_by_identity].each do |made|
        seen = ObjectSpace::WeakMap.new
        hashes = delete(way, seen, made)
        3.times { GC.start; Array.new(1_000) { Object.new } }
        abort "#{way}: #{hashes[0]}" unless hashes.all? { _1.to_a == [[:kept, "kept"]] }
        abort "#{way}: #{seen.size} live" if seen.size > 20
      end
    end
    puts "ok"
  RUBY
end

# Copies take the place of a deleted entry over as it is. Ruby traces a hash with variables, and knows which places those are.
COPIED = <<~'RUBY'
  class Named < Hash
    def initialize = (super; @name = "named")
    def bare = tap { remove_instance_variable(:@name) }
  end
  KEPT = [] # some cells in each block, so that none becomes empty
  def entry = { kept: "kept", gone: Object.new }.tap { |made| KEPT << (KEEPS_DELETED ? made[:gone] : Object.new) }
  COPIES = { to_h: :to_h.to_proc, select: ->(hash) { hash.select { true } }, reject: ->(hash) { hash.reject { false } },
             replace: ->(hash) { {}.replace(hash) }, Hash: ->(hash) { Hash[hash] }, bare: :bare.to_proc }
  def named = Array.new(2_000) { Named.new.merge!(entry) }
  def identified = Array.new(2_000) { entry.tap(&:object_id) }
  COPIES.each do |name, copy|
    [(identified unless name == :bare), named].compact.each do |hashes|
      hashes.each { |hash| hash.delete(:gone) }
      COLLECT.()
      copies = hashes.map(&copy)
      COLLECT.()
      abort "#{name}: #{copies[0]}" unless copies.all? { _1.to_a == [[:kept, "kept"]] }
    end
  end
  puts "ok"
RUBY

claim "a copy of a hash has nothing of what had died in the hash" do
  ruby_ok "KEEPS_DELETED, COLLECT = false, -> { 2.times { GC.start } }\n" + COPIED
end

claim "a copy of a hash has nothing of what had moved in the hash" do
  ruby_ok "KEEPS_DELETED, COLLECT = true, -> { GC.compact; GC.start }\n" + COPIED
end
