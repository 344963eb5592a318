# What other processes read of a heap (docs/reference/shared-memory.md).

OUTLINES = <<~'RUBY'
  require "objspace"
  # Opened anew each time: what a child has inherited goes on being its parent's memory.
  def memory(address, size) = File.open("/proc/self/mem", "rb") { |file| file.pread(size, address) }

  # The addresses that notes of the heap lead to.
  def outlines = notes.filter_map { |name, at| at + memory(at, 8).unpack1("q<") if name == "Ashlar.heap\0" }

  # Names of notes of kind 1, and where they hold how many bytes, of all files that are mapped from their beginning.
  def notes
    starts = File.readlines("/proc/self/maps").filter_map { |line| line.to_i(16) if line.match?(%r{\A\S+ r\S+ 0+ \S+ \S+ +/}) }
    starts.select { |start| memory(start, 6) == "\x7FELF\x02\x01".b }.flat_map { |start| noted(start) }
  end

  def noted(start)
    table, = memory(start + 32, 8).unpack("Q<")
    size, count = memory(start + 54, 4).unpack("S<2")
    headers = Array.new(count) { |i| memory(start + table + i * size, size).unpack("L<2Q<6") }
    loaded = start - headers.find { |kind, _, offset,| kind == 1 && offset == 0 }[3]
    headers.select { |kind,| kind == 4 }.flat_map { |header| in_notes(loaded + header[3], header[6], header[7] == 8 ? 8 : 4) }
  end

  def in_notes(start, size, align)
    found, at = [], 0
    while at < size
      name_bytes, held, kind = memory(start + at, 12).unpack("L<3")
      inside = (at + 12 + name_bytes).ceildiv(align) * align
      found << [memory(start + at + 12, name_bytes), start + inside, held] if kind == 1
      at = (inside + held).ceildiv(align) * align
    end
    found
  end

  def check_outline
    found = outlines
    abort "#{found.size} outlines" unless found.size == 1
    version, _, start, reserved, _, states, = memory(found[0], 48).unpack("L<2Q<5")
    granule_bytes, live_bit = memory(found[0] + 52, 4).unpack1("L<"), memory(found[0] + 84, 4).unpack1("L<")
    object = Object.new # kept, so that it is alive
    cell = ObjectSpace.dump(object)[/"address":"(0x\h+)"/, 1].hex
    abort "version #{version}" unless version == 1
    abort "an object at #{cell} lies outside #{start}, #{reserved} bytes" unless (start...start + reserved).cover?(cell)
    abort "it is not alive" if memory(states + (cell - start) / granule_bytes, 1).ord & live_bit == 0
  end
RUBY

claim "an ELF note leads to the outline of the heap, in a forked child as well", only: "ashlar" do
  ruby_ok OUTLINES + <<~'RUBY'
    check_outline
    Process.wait(fork { check_outline })
    abort "child #{$?}" unless $?.success?
    puts "ok"
  RUBY
end

claim "the outline names the process and those that it was forked from, nearest first", only: "ashlar" do
  ruby_ok OUTLINES + <<~'RUBY'
    def lineage = memory(outlines[0] + 268, 32).unpack("L<8").take_while(&:positive?)
    first = Process.pid
    abort "#{lineage}" unless lineage == [first]
    Process.wait(fork do
      second = Process.pid
      Process.wait(fork { exit!(lineage == [Process.pid, second, first]) })
      exit!($?.success? && lineage == [second, first])
    end)
    abort "child #{$?}" unless $?.success? && lineage == [first]
    puts "ok"
  RUBY
end

claim "another note says where a class has its name, and what is above a singleton class", only: "ashlar" do
  ruby_ok OUTLINES + <<~'RUBY'
    class Account; end
    _, at, size = notes.find { |name,| name == "Ashlar.ruby\0" }
    abort "#{size} bytes" unless size == 32
    CODE, ABOVE, PATH, SINGLETON, ELSEWHERE, LENGTH, POINTER, EMBEDDED = memory(at, size).unpack("L<8")
    def word(address) = memory(address, 8).unpack1("Q<")
    def name_of(object)
      klass = word(ObjectSpace.dump(object)[/"address":"(0x\h+)"/, 1].hex + 8)
      klass = word(klass + ABOVE) while word(klass) & SINGLETON != 0 || word(klass) & 31 == 28
      name = word(klass + PATH)
      name == 0 ? nil : memory(word(name) & ELSEWHERE == 0 ? name + EMBEDDED : word(name + POINTER), word(name + LENGTH))
    end
    Object.const_set("L#{"o" * 700}ng", Class.new)
    found = [Account.new, Account.new.extend(Comparable, Enumerable), Time.now, Class.new.new, Object.const_get("L#{"o" * 700}ng").new].map { |object| name_of(object) }
    abort found.inspect unless found == ["Account", "Account", "Time", nil, "L#{"o" * 700}ng"] && CODE == 1
    puts "ok"
  RUBY
end
