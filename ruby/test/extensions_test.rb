claim "json writes and reads back a large document" do
  ruby_ok <<~'RUBY'
    require "json"
    data = Array.new(3_000) { |i| { "id" => i, "name" => "name #{i}", "tags" => ["a", "é#{i}"], "nested" => { "x" => i / 3.0, "y" => nil } } }
    5.times { abort "differs" unless JSON.parse(JSON.generate(data)) == data }
    abort "pretty" unless JSON.parse(JSON.pretty_generate(data), symbolize_names: true)[7][:name] == "name 7"
    puts "ok"
  RUBY
end

claim "psych writes and reads back a document with anchors and its own classes" do
  ruby_ok <<~'RUBY'
    require "yaml"
    Point = Struct.new(:x, :y)
    shared = ["shared"] * 3
    data = Array.new(800) { |i| { "id" => i, "point" => Point.new(i, "y#{i}"), "shared" => shared, "text" => "line\nline #{i}\n" } }
    text = YAML.dump(data)
    back = YAML.load(text, permitted_classes: [Point, Symbol], aliases: true)
    abort "differs" unless back == data
    abort "identity" unless back[0]["shared"].equal?(back[1]["shared"])
    puts "ok"
  RUBY
end

claim "openssl digests, encrypts, signs and speaks TLS to itself" do
  ruby_ok <<~'RUBY'
    require "openssl"
    require "socket"
    abort "digest" unless OpenSSL::Digest.hexdigest("SHA256", "abc").start_with?("ba7816bf")
    200.times do |i|
      cipher = OpenSSL::Cipher.new("aes-256-gcm").encrypt
      key, iv = cipher.random_key, cipher.random_iv
      text = "secret #{i} " * 50
      sealed = cipher.update(text) + cipher.final
      open = OpenSSL::Cipher.new("aes-256-gcm").decrypt
      open.key, open.iv, open.auth_tag = key, iv, cipher.auth_tag
      abort "cipher" unless open.update(sealed) + open.final == text
    end
    key = OpenSSL::PKey::EC.generate("prime256v1")
    certificate = OpenSSL::X509::Certificate.new
    certificate.version = 2
    certificate.serial = 1
    certificate.subject = certificate.issuer = OpenSSL::X509::Name.parse("/CN=localhost")
    certificate.public_key = key
    certificate.not_before = Time.now - 60
    certificate.not_after = Time.now + 600
    certificate.sign(key, "SHA256")
    context = OpenSSL::SSL::SSLContext.new
    context.cert, context.key = certificate, key
    tcp = TCPServer.new("127.0.0.1", 0)
    server = Thread.new do
      ssl = OpenSSL::SSL::SSLServer.new(tcp, context)
      5.times { client = ssl.accept; client.puts(client.gets.upcase); client.close }
    end
    5.times do |i|
      client = OpenSSL::SSL::SSLSocket.new(TCPSocket.new("127.0.0.1", tcp.addr[1]))
      client.connect
      client.puts("hello #{i}")
      GC.start
      abort "tls" unless client.gets == "HELLO #{i}\n"
      client.close
    end
    server.join
    puts "ok"
  RUBY
end

claim "zlib deflates and inflates streams of many sizes" do
  ruby_ok <<~'RUBY'
    require "zlib"
    require "stringio"
    60.times do |i|
      text = Array.new(i * 150) { |k| "line #{k * i}" }.join("\n")
      abort "deflate" unless Zlib::Inflate.inflate(Zlib::Deflate.deflate(text)) == text
      io = StringIO.new
      writer = Zlib::GzipWriter.new(io)
      text.each_line { |line| writer.write(line) }
      writer.close
      abort "gzip" unless Zlib::GzipReader.new(StringIO.new(io.string)).read == text
    end
    # Streams that are dropped half way are freed by the collector.
    2_000.times { Zlib::Deflate.new << "dropped" }
    GC.start
    puts "ok"
  RUBY
end

claim "stringio, strscan and ripper work over a large source text" do
  ruby_ok <<~'RUBY'
    require "stringio"
    require "strscan"
    require "ripper"
    text = File.read($LOADED_FEATURES.grep(/rbconfig/).first)
    io = StringIO.new(text * 20)
    abort "lines" unless io.each_line.count == text.lines.size * 20
    scanner = StringScanner.new(text)
    words = 0
    words += 1 while scanner.scan_until(/\w+/)
    abort "words" unless words == text.scan(/\w+/).size
    10.times { abort "sexp" unless Ripper.sexp(text).first == :program }
    abort "lex" unless Ripper.lex(text).map { |token| token[2] }.join == text
    puts "ok"
  RUBY
end

claim "sockets carry large messages between threads" do
  ruby_ok <<~'RUBY'
    require "socket"
    left, right = UNIXSocket.pair
    message = Array.new(20_000) { |i| "chunk #{i}" }.join(",")
    writer = Thread.new { 5.times { left.write([message.bytesize].pack("N"), message) }; left.close }
    5.times { abort "torn" unless right.read(right.read(4).unpack1("N")) == message }
    writer.join
    udp = UDPSocket.new.tap { |s| s.bind("127.0.0.1", 0) }
    200.times { |i| UDPSocket.new.send("datagram #{i}", 0, "127.0.0.1", udp.addr[1]); abort "udp" unless udp.recvfrom(100).first == "datagram #{i}" }
    puts "ok"
  RUBY
end

claim "objspace counts, traces and dumps every object as JSON" do
  ruby_ok <<~'RUBY'
    require "objspace"
    require "json"
    ObjectSpace.trace_object_allocations_start
    traced = Array.new(100) { |i| "traced #{i}" }
    abort "line" unless ObjectSpace.allocation_sourceline(traced[3]) == __LINE__ - 1
    GC.start
    abort "file" unless ObjectSpace.allocation_sourcefile(traced[99]) == __FILE__
    abort "memsize" unless ObjectSpace.memsize_of("x" * 5_000) >= 5_000
    abort "types" unless ObjectSpace.count_objects_size[:TOTAL] > 100_000
    File.open("dump", "w") { |file| ObjectSpace.dump_all(output: file, full: true) }
    seen = 0
    addresses = {}
    File.foreach("dump") do |line|
      object = JSON.parse(line)
      next if object["type"] == "ROOT"
      seen += 1
      abort "address twice: #{line}" if object["address"] && addresses[object["address"]]
      addresses[object["address"]] = true
    end
    abort "few objects: #{seen}" unless seen > 5_000
    found = JSON.parse(ObjectSpace.dump(traced[5]))
    abort "dump" unless found["value"] == "traced 5" && found["slot_size"] >= 40
    abort "reachable" unless ObjectSpace.reachable_objects_from(traced).size >= 100
    puts "ok"
  RUBY
end

claim "a full dump shows each cell once, free ones as such" do
  ruby_ok <<~'RUBY'
    require "objspace"
    require "json"
    kept = Array.new(5_000) { |i| ["kept", "dropped #{i}" * 5].first }
    GC.start
    ObjectSpace.dump_all(output: File.open("dump", "w"), full: true).close
    cells = File.foreach("dump").map { |line| JSON.parse(line) }.select { |cell| cell["slot_size"] || cell["type"] == "NONE" }
    addresses = cells.map { |cell| cell["address"] }
    abort "twice" unless addresses.uniq.size == addresses.size
    free = cells.count { |cell| cell["type"] == "NONE" }
    abort "#{free} free" if free < 1_000
    abort "#{kept.size} kept" unless cells.size - free > 5_000
    puts "ok"
  RUBY
end

claim "a walk during which much is collected and payloads take over blocks meets only what lives" do
  ruby_ok <<~'RUBY'
    require "objspace"
    6.times do |round|
      kept = Array.new(2_000) { |i| "kept #{round} #{i}" * 3 }
      30_000.times { |i| "dead #{i}" * (i % 20) }
      text = ObjectSpace.dump_all(output: :string, full: round.even?)
      abort "short" if text.count("\n") < 10_000
      seen = 0
      ObjectSpace.each_object(String) do |string|
        seen += 1
        GC.start if seen == 100
        string.hash
        "x" * 2_000 if seen % 10 == 0
      end
      abort "few" if seen < 2_000
      abort "lost" unless kept.last == "kept #{round} 1999" * 3
    end
    puts "ok"
  RUBY
end

claim "each_object shows no object that died while a visitor was busy with another one in the same block" do
  ruby_ok <<~'RUBY'
    WIDTH = 300
    def string(word) = word.ljust(WIDTH, ".")
    4.times do
      # One string in each block, so that the block is kept and the other cells are free.
      $kept = Array.new(110) { first = string("kept"); 190.times { string("gone") }; first }
      GC.start
      seen = []
      state = :before
      ObjectSpace.each_object(String) do |found|
        if state == :before
          GC.disable
          15_000.times { string("late") }
          state = :filled
        elsif found.bytesize == WIDTH && found.start_with?("late")
          seen << found
          next if state == :collected
          GC.enable
          GC.start(immediate_sweep: false)
          state = :collected
        end
      end
      abort "nothing was collected" unless state == :collected
      others = Array.new(20_000) { string("other") }
      GC.start
      broken = seen.count { |found| !found.start_with?("late") }
      abort "#{broken} of #{seen.size} are no longer what they were" unless broken.zero?
    end
    puts "ok"
  RUBY
end

claim "each_object sees each live object once and no dead or foreign memory" do
  ruby_ok <<~'RUBY'
    class Marked; def initialize(n) = @n = n; attr_reader :n; end
    kept = Array.new(10_000) { |i| Marked.new(i) }
    30_000.times { Marked.new(-1); "x" * 300 }
    GC.start
    seen = ObjectSpace.each_object(Marked).map(&:n).reject(&:negative?).sort
    abort "seen #{seen.size}" unless seen == (0...10_000).to_a
    total = 0
    ObjectSpace.each_object { |object| total += 1; object.class }
    abort "total" unless total > 10_000
    puts "ok"
  RUBY
end

claim "fiddle calls into C with memory it owns", needs: "fiddle" do
  ruby_ok <<~'RUBY'
    require "fiddle"
    strlen = Fiddle::Function.new(Fiddle.dlopen(nil)["strlen"], [Fiddle::TYPE_VOIDP], Fiddle::TYPE_SIZE_T)
    1_000.times { |i| abort "strlen" unless strlen.call("x" * i) == i }
    compare = Fiddle::Closure::BlockCaller.new(Fiddle::TYPE_INT, [Fiddle::TYPE_VOIDP, Fiddle::TYPE_VOIDP]) do |a, b|
      "garbage " * 3
      a[0, 4].unpack1("l") <=> b[0, 4].unpack1("l")
    end
    qsort = Fiddle::Function.new(Fiddle.dlopen(nil)["qsort"], [Fiddle::TYPE_VOIDP, Fiddle::TYPE_SIZE_T, Fiddle::TYPE_SIZE_T, Fiddle::TYPE_VOIDP], Fiddle::TYPE_VOID)
    numbers = Array.new(2_000) { |i| (i * 7919) % 2_000 }
    memory = Fiddle::Pointer.malloc(8_000, Fiddle::RUBY_FREE)
    memory[0, 8_000] = numbers.pack("l*")
    qsort.call(memory, 2_000, 4, compare)
    abort "sorted" unless memory[0, 8_000].unpack("l*") == numbers.sort
    1_000.times { Fiddle::Pointer.malloc(100, Fiddle::RUBY_FREE) }
    GC.start
    puts "ok"
  RUBY
end

claim "date, digest, bigdecimal-free arithmetic and etc load and answer" do
  ruby_ok <<~'RUBY'
    require "date"
    require "digest"
    require "etc"
    require "io/console"
    days = (Date.new(2000, 1, 1)..Date.new(2005, 1, 1)).map(&:to_s)
    abort "days" unless days.size == 1_828 && days.last == "2005-01-01"
    abort "digest" unless 500.times.map { |i| Digest::SHA1.hexdigest("v#{i}") }.uniq.size == 500
    abort "etc" unless Etc.getpwuid.uid == Process.uid
    abort "bignum" unless (1..300).inject(:*).to_s.size == 615
    puts "ok"
  RUBY
end

# An extension that hears the collector's events, as profilers do. GC.hear begins; each hook asks for statistics, or allocates.
# GC.heard is how often the collector was entered and left, the nanoseconds in between, how many sweeps ended, how many events
# and collections came where they do not belong, and what the latest collection was by when it started.
LISTENER = <<~'C'
  #include <ruby.h>
  #include <ruby/debug.h>
  #include <time.h>

  static struct { long enters, exits, ns, sweeps, misplaced; } heard;
  static int is_inside;
  static VALUE count, major_by, started_by = Qnil;

  static long now_ns(void) {
      struct timespec now;
      clock_gettime(CLOCK_MONOTONIC, &now);
      return now.tv_sec * 1000000000 + now.tv_nsec;
  }

  static void ask(void) {
      rb_gc_count();
      rb_gc_stat(count);
      rb_gc_latest_gc_info(major_by);
  }

  static void allocate(void) {
      for (int i = 0; i < 50; i++) {
          xfree(xmalloc(20000));
          rb_str_new("a string in a cell", 18);
      }
  }

  static void note(rb_event_flag_t event) {
      heard.misplaced += is_inside == (event == RUBY_INTERNAL_EVENT_GC_ENTER);
      switch (event) {
        case RUBY_INTERNAL_EVENT_GC_ENTER: heard.enters++; heard.ns -= now_ns(); is_inside = 1; break;
        case RUBY_INTERNAL_EVENT_GC_EXIT: heard.exits++; heard.ns += now_ns(); is_inside = 0; break;
        case RUBY_INTERNAL_EVENT_GC_END_SWEEP: heard.sweeps++; break;
        case RUBY_INTERNAL_EVENT_GC_START: started_by = rb_gc_latest_gc_info(major_by); break;
      }
  }

  static void hook(VALUE point, void *beside) {
      note(rb_tracearg_event_flag(rb_tracearg_from_tracepoint(point)));
      size_t collections = rb_gc_count();
      ((void (*)(void))beside)();
      heard.misplaced += rb_gc_count() != collections;
  }

  static VALUE hear(VALUE self, VALUE allocates) {
      void (*beside)(void) = RTEST(allocates) ? allocate : ask;
      rb_event_flag_t events = RUBY_INTERNAL_EVENT_GC_ENTER | RUBY_INTERNAL_EVENT_GC_EXIT | RUBY_INTERNAL_EVENT_GC_START |
                               RUBY_INTERNAL_EVENT_GC_END_MARK | RUBY_INTERNAL_EVENT_GC_END_SWEEP;
      VALUE point = rb_tracepoint_new(0, events, hook, (void *)beside);
      rb_gc_register_mark_object(point);
      ask(); /* for what is made at the first time only */
      rb_tracepoint_enable(point); /* what it returns is no object */
      return Qnil;
  }

  static VALUE what_was_heard(VALUE self) {
      long numbers[] = { heard.enters, heard.exits, heard.ns, heard.sweeps, heard.misplaced };
      VALUE all = rb_ary_new();
      for (int i = 0; i < 5; i++) rb_ary_push(all, LONG2NUM(numbers[i]));
      return rb_ary_push(all, started_by);
  }

  void Init_listener(void) {
      count = ID2SYM(rb_intern("count"));
      major_by = ID2SYM(rb_intern("major_by"));
      rb_define_singleton_method(rb_mGC, "hear", hear, 1);
      rb_define_singleton_method(rb_mGC, "heard", what_was_heard, 0);
  }
C

LISTENING = <<~'RUBY'
  require "./listener"

  def replace(strings, times) = times.times { strings[rand(strings.size)] = "y" * 60 }

  def check_events(least_sweeps: 1)
    enters, exits, _, sweeps, misplaced = GC.heard
    abort "#{misplaced} misplaced" unless misplaced == 0
    abort "#{enters} entered, #{exits} left" unless enters == exits
    abort "#{sweeps} sweeps" unless sweeps >= least_sweeps
  end
RUBY

def compile_listener = compiled("listener.so", LISTENER, "-shared", "-fPIC", *Subject.config.values_at("rubyhdrdir", "rubyarchhdrdir").map { "-I#{_1}" })

claim "between the events of entering and leaving the collector lies all its time, also that of sweeping" do
  compile_listener
  ruby_ok LISTENING + <<~'RUBY', limit: 120, env: { "ASHLAR_THREADS" => "1" } # wall time is compared with CPU time
    strings = Array.new(50_000) { "x" * 60 }
    GC.hear(false)
    before = GC.total_time
    replace(strings, 500_000)
    heard, spent = GC.heard[2], GC.total_time - before
    check_events(least_sweeps: 3)
    abort "#{heard} of #{spent} ns" unless heard > spent * 0.9
    puts "ok"
  RUBY
end

claim "entering and leaving the collector take turns when the program asks for collections and walks over objects" do
  compile_listener
  ruby_ok LISTENING + <<~'RUBY', limit: 120
    strings = Array.new(50_000) { "x" * 60 }
    GC.hear(false)
    10.times do
      replace(strings, 30_000)
      GC.start(immediate_sweep: false)
      ObjectSpace.each_object(Class) { }
      GC.start(full_mark: false)
      GC.start
    end
    GC.compact
    GC.stress = true
    replace(strings, 10)
    GC.stress = false
    check_events(least_sweeps: 30)
    puts "ok"
  RUBY
end

claim "hooks of the collector's events may ask for statistics while several Ractors allocate" do
  compile_listener
  ruby_ok LISTENING + <<~'RUBY', "-W0"
    GC.hear(false)
    busy = Array.new(3) { Ractor.new { kept = Array.new(5_000) { "x" * 60 }; 60_000.times { kept[rand(kept.size)] = "y" * 60 }; :done } }
    replace(Array.new(5_000) { "x" * 60 }, 60_000)
    abort "lost" unless busy.map(&:value) == [:done] * 3
    check_events
    puts "ok"
  RUBY
end

claim "no collection begins in a hook of the collector's events that allocates", only: "ashlar" do
  compile_listener
  ruby_ok LISTENING + <<~'RUBY', env: { "ASHLAR_NURSERY_MIN" => "1MiB" }
    strings = Array.new(20_000) { "x" * 60 }
    GC.hear(true)
    replace(strings, 500_000)
    check_events(least_sweeps: 3)
    abort "lost" unless strings.all? { _1.match?(/\A(x{60}|y{60})\z/) }
    puts "ok"
  RUBY
end

claim "when a collection starts, latest_gc_info is about that one" do
  compile_listener
  ruby_prints("[nil, :force, nil]\n", LISTENING + <<~'RUBY')
    GC.start
    GC.hear(false)
    p [false, true, false].map { |full_mark| GC.start(full_mark:); GC.heard.last }
  RUBY
end
