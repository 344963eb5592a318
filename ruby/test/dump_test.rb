# GC.config(dump: "file"): the whole heap, written to a file.
READER = File.expand_path("heap_dump.rb", __dir__)

claim "a dump has the objects, classes, sizes and references that ObjectSpace.dump_all tells", only: "ashlar" do
  ruby_ok <<~RUBY
    require "objspace"
    require "json"
    require #{READER.inspect}
    Pair = Struct.new(:one, :other)
    Wide = Struct.new(*("a".."z").map(&:to_sym))
    class Thing; def initialize(*values) = values.each_with_index { |value, i| instance_variable_set("@v\#{i}", value) }; end
    shared = "s" * 1000
    KEEP = [Pair.new("a" * 100, [1.5] * 20), Wide.new(*1..26), { a: "b", 1 => shared }, (1..100).to_h { [_1, _1.to_s] }, Thing.new("x", [1]),
            Thing.new(*Array.new(30) { _1.to_s }), shared[100..], Rational(3, 4), Complex(1, 2), /re\#{shared}/, "abc".match(/b/), 2**100, 1.0.next_float,
            proc { shared }, Thread.new { sleep }, Object.new.tap { |o| def o.single = 1 }, "generic".dup.tap { _1.instance_variable_set(:@iv, [1]) },
            $stdout, Class.new, Module.new, Enumerator.new { }, :"dynamic \#{rand}", method(:puts), Set.new([1, "two"])]
    path = File.join(__dir__, "heap.dump")
    GC.config(dump: path)
    GC.disable
    told = ObjectSpace.dump_all(output: File.open("all.json", "w+"))
    told.rewind
    all = told.each_line.filter_map { |line| JSON.parse(line, symbolize_names: true) rescue nil }
    dump = HeapDump.new(File.binread(path))
    # Ruby's own objects change while this runs; what KEEP keeps does not.
    mine = [JSON.parse(ObjectSpace.dump(KEEP))["address"].hex]
    changing = %w[CLASS MODULE ICLASS DATA]
    mine.each { |address| mine.concat(dump.cells[address].references.reject { changing.include?(dump.cells[_1].kind) || dump.cells[_1].kind.start_with?("IMEMO") || mine.include?(_1) }) }
    abort "\#{mine.size} objects kept" unless mine.size > 150
    roots, objects = all.partition { _1[:type] == "ROOT" }
    compared = 0
    classes = objects.to_h { [_1[:address], _1] }
    # The one singleton class that Ruby 4.0 does not call one.
    frozen_core = objects.find { _1[:name] == "RubyVM::FrozenCore" } and classes[frozen_core[:class]][:singleton] = true
    objects.each do |object|
      next if %w[SHAPE NONE ZOMBIE].include?(object[:type])
      cell = dump.cells[object[:address].hex] or next # made after the dump
      compared += 1
      kind = object[:imemo_type] ? "IMEMO \#{object[:imemo_type]}" : object[:type]
      abort "\#{cell.kind} \#{object}" unless cell.kind == kind && cell.width == object[:slot_size]
      # What has variables of another object (imemo_fields of Ruby 4.0) shows that one as its class.
      klass = object[:class] unless object[:type] == "ICLASS" || object[:imemo_type]
      klass = classes[klass][:superclass] while klass && (classes[klass][:singleton] || classes[klass][:type] == "ICLASS")
      abort "class \#{cell.class_address.to_s(16)} \#{object}" unless cell.class_address == klass.to_s.hex
      abort "name \#{cell.name.inspect} \#{object}" if object[:name] && cell.name != object[:name]
      next unless mine.include?(cell.address)
      wanted = (object[:references] || []).map(&:hex).uniq - [object[:address].hex, cell.class_address]
      found = cell.references.uniq
      singleton = object[:class].to_s.hex
      found -= [singleton] if singleton != cell.class_address
      abort "references \#{found.map { _1.to_s(16) }} \#{object}" unless found.sort == wanted.sort
      payload = object[:memsize] - object[:slot_size]
      abort "payload \#{cell.payload_bytes} \#{object}" unless cell.payload_bytes.between?(payload - 1, payload * 2 + 64)
    end
    abort "only \#{compared} of \#{objects.size}" unless compared > objects.size * 0.9
    missing = dump.cells.keys - objects.map { _1[:address].to_s.hex }
    abort "\#{missing.size} objects too many" unless missing.size < 20 # no garbage: dead since the dump
    abort "roots \#{dump.roots.keys}" unless (roots.map { _1[:root] } - dump.roots.keys).empty? && dump.roots["vm"].all? { dump.cells[_1] }
    abort "totals" unless dump.totals[:cells] == dump.cells.size && dump.totals[:references] == dump.cells.sum { _2.references.size }
    abort "header" unless dump.ruby_version == RUBY_VERSION && dump.pid == Process.pid
    abort "no garbage is told of" if dump.cells.any? { |address, cell| cell.references.any? { dump.cells[_1].nil? } }
    puts "ok"
  RUBY
end

claim "a dump with .gz at its end is gzip, and the same", only: "ashlar" do
  ruby_ok <<~RUBY
    require "zlib"
    require #{READER.inspect}
    KEEP = Array.new(10_000) { [_1.to_s] }
    GC.config(dump: "heap.dump")
    GC.config(dump: "heap.dump.gz")
    plain, packed = HeapDump.new(File.binread("heap.dump")), HeapDump.new(Zlib.gunzip(File.binread("heap.dump.gz")))
    difference = (plain.cells.keys - packed.cells.keys).size + (packed.cells.keys - plain.cells.keys).size
    abort "\#{difference} differ" unless difference < 300
    abort "size" unless File.size("heap.dump.gz") * 2 < File.size("heap.dump")
    abort Dir.children(".").inspect if Dir.children(".").any? { _1.end_with?(".part") }
    puts "ok"
  RUBY
end

claim "a dump says who is old, and what blocks are used for", only: "ashlar" do
  ruby_ok <<~RUBY
    require #{READER.inspect}
    class Old; end
    class New; end
    OLD = Array.new(100) { Old.new }
    4.times { GC.start }
    GC.disable
    SPAN = "s" * (10 << 20)
    NEW = Array.new(100) { New.new }
    GC.config(dump: "heap.dump")
    dump = HeapDump.new(File.binread("heap.dump"))
    named = dump.cells.values.select(&:name).to_h { [_1.name, _1.address] }
    ages = ->(name) { dump.cells.values.select { _1.class_address == named[name] }.map(&:age).uniq }
    abort ages["Old"].inspect unless ages["Old"] == [3]
    abort ages["New"].inspect if ages["New"].include?(0)
    string = dump.cells.values.max_by(&:payload_bytes)
    abort string.inspect unless string.kind == "STRING" && string.payload_bytes.between?(10 << 20, 10 << 20 | 1 << 16)
    abort dump.blocks.inspect unless dump.blocks["span"] >= 160 && dump.blocks["cells"] > 20 && dump.blocks["payloads"] > 20
    puts "ok"
  RUBY
end

claim "writing a dump makes no objects and takes less than 16 MiB", only: "ashlar" do
  ruby_ok <<~'RUBY'
    KEEP = Array.new(400_000) { |i| [i.to_s, { i => nil }] }
    BIG = Array.new(2_000_000) { KEEP[_1 % KEEP.size] } # references are not gathered first
    GC.start
    status = ->(name) { File.read("/proc/self/status")[/#{name}:\s+(\d+)/, 1].to_i }
    options = { dump: "heap.dump.gz" }
    GC.config(options)
    3.times { GC.start }
    File.write("/proc/self/clear_refs", "5") # the peak anew
    before = status["VmRSS"]
    allocated = GC.stat(:total_allocated_objects)
    GC.config(options)
    allocated = GC.stat(:total_allocated_objects) - allocated
    abort "#{allocated} objects" unless allocated < 40 # the hash that GC.config returns
    abort "#{status["VmHWM"] - before} KiB" unless status["VmHWM"] - before < 16 << 10
    puts "ok"
  RUBY
end

claim "a dump that cannot be written is one exception, and nothing is left of it", only: "ashlar" do
  ruby_ok <<~'RUBY'
    KEEP = Array.new(100_000) { _1.to_s }
    refused = lambda do |path, error|
      GC.config(dump: path)
      abort "#{path}: written"
    rescue error => raised
      abort raised.message unless raised.message.include?(path.inspect) || error == ArgumentError
    end
    Dir.mkdir("folder")
    refused["folder", Errno::EISDIR]
    refused["missing/heap.dump", Errno::ENOENT]
    refused["/dev/full", Errno::ENOSPC]
    refused["/proc/heap.dump", Errno::ENOENT]
    [nil, 5, ""].each { refused[_1, ArgumentError] }
    refused["a\0b", ArgumentError]
    File.write("heap.dump", "what was there")
    Process.setrlimit(:FSIZE, 100_000)
    %w[heap.dump heap.dump.gz /dev/stderr].each { refused[_1, Errno::EFBIG] }
    abort "it was written over" unless File.read("heap.dump") == "what was there"
    abort Dir.children(".").inspect if Dir.children(".").any? { _1.end_with?(".part") } || File.exist?("heap.dump.gz")
    GC.start
    puts "ok"
  RUBY
end

claim "options beside an order to dump are set, and an impossible one is refused first", only: "ashlar" do
  ruby_ok <<~'RUBY'
    changed = GC.config(space_overhead: 50, dump: "heap.dump")
    abort changed.inspect unless changed[:space_overhead] == 50 && !changed.key?(:dump) && File.size?("heap.dump")
    begin
      GC.config(space_overhead: 5, dump: "other.dump")
      abort "accepted"
    rescue ArgumentError
      abort "written" if File.exist?("other.dump")
    end
    puts "ok"
  RUBY
end

claim "a dump may be written to a pipe", only: "ashlar" do
  ruby_ok <<~RUBY
    require #{READER.inspect}
    File.mkfifo("pipe")
    reader = Process.spawn("cat pipe > copy.dump")
    GC.config(dump: "pipe")
    Process.wait(reader)
    abort "pipe" unless HeapDump.new(File.binread("copy.dump")).cells.size > 1000 && File.ftype("pipe") == "fifo"
    puts "ok"
  RUBY
end

claim "a dump waits for the reader of a pipe without keeping others, and until the program has enough", only: "ashlar" do
  ruby_ok <<~RUBY, limit: 60
    require "timeout"
    require #{READER.inspect}
    KEEP = Array.new(50_000) { _1.to_s }
    File.mkfifo("pipe")
    ran = 0
    other = Thread.new { loop { ran += 1; sleep 0.01 } }
    begin
      Timeout.timeout(0.5) { GC.config(dump: "pipe") }
      abort "dumped for nobody"
    rescue Timeout::Error
    end
    abort "the others waited" unless ran > 5
    reader = Thread.new { File.binread("pipe") } # of this very process
    GC.config(dump: "pipe")
    abort "pipe" unless HeapDump.new(reader.value).cells.size > 50_000
    # A reader that stops: the pipe is full, and nothing is locked.
    reader, writer = IO.pipe
    ran = 0
    begin
      Timeout.timeout(0.5) { GC.config(dump: "/dev/fd/\#{writer.fileno}") }
      abort "more than a pipe holds went into it"
    rescue Timeout::Error
    end
    abort "the others waited" unless ran > 5
    writing = Thread.new { GC.config(dump: "/dev/fd/\#{writer.fileno}") }
    sleep 0.2
    GC.compact
    GC.start
    writing.kill
    abort "not killed" unless writing.join(10)
    reader.close
    begin
      GC.config(dump: "/dev/fd/\#{writer.fileno}")
      abort "written for nobody"
    rescue Errno::EPIPE => error
      abort error.message unless error.message.include?("/dev/fd/")
    end
    puts "ok"
  RUBY
end

claim "a dump that waits for its reader reads nothing of the environment, which others change", only: "ashlar" do
  ruby_ok <<~'RUBY'
    File.mkfifo("pipe")
    writing = Thread.new { GC.config(dump: "pipe") }
    writing.report_on_exception = false
    Thread.pass until writing.status == "sleep"
    ENV["TMPDIR"] = "/nowhere/at/all"
    read = File.binread("pipe")
    writing.value
    abort "pipe" unless read.start_with?("ashlar-heap-dump\n")
    puts "ok"
  RUBY
end

claim "a dump goes to what a descriptor stands for", only: "ashlar" do
  ruby_ok <<~RUBY
    require #{READER.inspect}
    reader, writer = IO.pipe
    read = Thread.new { reader.binmode.read }
    GC.config(dump: "/dev/fd/\#{writer.fileno}")
    abort "closed" if writer.closed?
    writer << "behind it"
    writer.close
    bytes = read.value
    abort "order" unless bytes.delete_suffix!("behind it")
    abort "pipe" unless HeapDump.new(bytes).cells.size > 1000
    file = File.open("log", "w+b")
    file.syswrite("before ")
    GC.config(dump: "/proc/self/fd/\#{file.fileno}")
    bytes = File.binread("log")
    abort "file" unless bytes.delete_prefix!("before ") && HeapDump.new(bytes).cells.size > 1000
    begin
      GC.config(dump: "/dev/fd/999")
      abort "no such descriptor"
    rescue Errno::EBADF
    end
    abort Dir.children(".").inspect unless (Dir.children(".") - ["log"]).grep(/part|dump/).empty?
    puts "ok"
  RUBY
  finished = ruby('GC.config(dump: "/dev/stdout")')
  check(finished.ok? && finished.out.start_with?("ashlar-heap-dump\n")) { finished.describe }
end

claim "a dump is for its user alone, replaces links and follows none", only: "ashlar" do
  ruby_ok <<~'RUBY'
    File.umask(0)
    File.write("other", "precious")
    File.symlink("other", "link.dump")
    File.symlink("nothing", "dangling.dump")
    File.link("other", "hard.dump")
    File.write("mine.dump", "old")
    File.chmod(0o666, "mine.dump")
    %w[link.dump dangling.dump hard.dump mine.dump new.dump].each do |name|
      GC.config(dump: name)
      found = File.lstat(name)
      abort "#{name}: #{found.inspect}" unless found.file? && found.mode & 0o777 == 0o600 && found.nlink == 1
      abort name unless File.binread(name, 6) == "ashlar"
    end
    abort "written over" unless File.read("other") == "precious" && !File.exist?("nothing")
    File.mkfifo("pipe")
    File.symlink("pipe", "to-pipe")
    begin
      GC.config(dump: "to-pipe")
      abort "followed"
    rescue Errno::ELOOP
    end
    if Process.euid.zero?
      File.chown(65534, nil, "pipe")
      reader = File.open("pipe", File::RDONLY | File::NONBLOCK)
      begin
        GC.config(dump: "pipe")
        abort "written to a pipe of another user's"
      rescue Errno::EPERM
      end
      abort "read" unless reader.read_nonblock(1, exception: false).to_s.empty?
    end
    puts "ok"
  RUBY
end

claim "dumps are whole while other Ractors and threads run, a collection is in slices, and objects move", only: "ashlar" do
  ruby_ok <<~RUBY, env: { "ASHLAR_SLICE_US" => "100" }, limit: 240
    require #{READER.inspect}
    $VERBOSE = nil
    KEEP = Array.new(20_000) { [_1.to_s] }
    stop = false
    threads = Array.new(2) { Thread.new { Array.new(100) { |i| [i.to_s * 10] } until stop } }
    ractors = Array.new(2) { Ractor.new { 500.times { Array.new(100) { |i| [i.to_s * 10] } } } }
    4.times do |round|
      GC.compact if round == 2
      Array.new(50_000) { +"" } # a collection may be half done
      GC.config(dump: "heap.dump")
      dump = HeapDump.new(File.binread("heap.dump"))
      abort "not whole" if dump.cells.any? { |_, cell| cell.references.any? { !dump.cells.key?(_1) } }
      abort "round \#{round}: \#{dump.cells.size}" unless dump.cells.size > 40_000
    end
    stop = true
    threads.each(&:join)
    ractors.each(&:value)
    puts "ok"
  RUBY
end

claim "a program that is dumped all the time goes on", only: "ashlar" do
  ruby_ok <<~'RUBY', env: stress("poison", "verify"), limit: 240
    table = {}
    20.times do |round|
      2_000.times { |i| table[i] = "#{round} #{i}" * 3 }
      GC.config(dump: round.odd? ? "heap.dump.gz" : "heap.dump")
      abort "round #{round}" unless table.all? { |i, text| text == "#{round} #{i}" * 3 }
    end
    child = fork { GC.config(dump: "child.dump"); exit!(0) }
    Process.wait(child)
    abort "child" unless $?.success? && File.size?("child.dump")
    puts "ok"
  RUBY
end
