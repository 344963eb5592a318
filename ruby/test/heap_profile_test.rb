require_relative "heap_image"

LIBRARY_FOLDER = File.expand_path("../lib", __dir__)
LEAK = <<~'RUBY'
  class Leaky
    def initialize(n)
      @text = "x" * n
    end
  end
  KEPT = []
  def leak = KEPT << Leaky.new(2000)
  def churn = Array.new(100) { |i| "junk #{i}" * 20 }
  5_000.times { leak; churn }
  GC.start
RUBY

# Runs a program with samples taken, one in `period` bytes; what it wrote, and the image.
def profiled(source, period: "4KiB", **rest)
  env = { "ASHLAR_PROFILE" => "it.heap", "ASHLAR_PROFILE_BYTES" => period }.merge(rest.delete(:env) || {})
  finished = ruby(source, "-I#{LIBRARY_FOLDER}", env:, **rest)
  check(finished.ok?) { finished.describe }
  HeapImage.read(File.join(folder, "it.heap"))
end

# Whether a figure is what is expected, within five standard errors of that many samples.
def check_estimate(expected, found, samples)
  error = 5 * expected / Math.sqrt([samples, 1].max)
  check((found - expected).abs <= error) { "#{found.round} instead of #{expected} ± #{error.round} from #{samples} samples" }
end

claim "a planted leak has the most live bytes of all places, by file, line and class, and churn beside it has next to none", only: "ashlar" do
  image = profiled(LEAK)
  top = image.sites.max_by(&:live_bytes)
  check_equal("String", top.class_name)
  check(top.places.first(2).map { _1[/:\d+/] } == %w[:3 :7]) { top.places.inspect }
  check(top.labels.include?("Leaky#initialize")) { top.labels.inspect }
  churn = image.sites.select { |site| site.places.any? { _1.end_with?(".rb:8") } }
  check(churn.sum(&:bytes) > 20_000_000 && churn.sum(&:live_bytes) < 2_000_000) { churn.sum(&:live_bytes).to_s }
end

claim "live and allocated bytes and objects are what the program made of them, cells and payloads alike", only: "ashlar" do
  image = profiled(LEAK)
  leaked = image.sites.select { |site| site.labels.include?("Object#leak") }
  objects = leaked.select { _1.class_name == "Leaky" }
  check_estimate(5_000, objects.sum(&:live_objects), objects.sum(&:live_samples))
  texts = leaked.select { _1.kind == :payload && _1.class_name == "String" }
  check_estimate(5_000 * 2_001, texts.sum(&:live_bytes), texts.sum(&:live_samples))
  check_estimate(5_000 * 2_001, texts.sum(&:bytes), texts.sum(&:samples))
  check_estimate(image.numbers[9], image.allocated_bytes, image.sites.sum(&:samples) / 5)
  check_equal(0, image.dropped_samples)
end

claim "samples end with their objects, at the age that these had", only: "ashlar" do
  image = profiled(<<~'RUBY')
    GC.disable
    def short = 20_000.times { Object.new }
    short
    GC.start
    def long = $kept = Array.new(20_000) { [1, 2, 3, 4] }
    long
    5.times { GC.start }
    $kept = nil
    [nil] * 100
    2.times { GC.start }
  RUBY
  short = image.sites.select { |site| site.labels.include?("Object#short") && site.class_name == "Object" }
  long = image.sites.select { |site| site.labels.include?("Object#long") && site.class_name == "Array" && site.kind == :cell }
  check(short.sum { _1.died_at_age[0] } > 100) { short.map(&:died_at_age).inspect }
  # After five collections: the class of 4 to 7.
  check(long.sum { _1.died_at_age[3] } > 100) { long.map(&:died_at_age).inspect }
  check(long.sum(&:live_samples) < 5) { long.sum(&:live_samples).to_s }
end

claim "a payload's sample ends when it is freed, resized or handed to another owner's free", only: "ashlar" do
  image = profiled(<<~'RUBY')
    def grow
      text = +""
      2_000.times { text << "0123456789" * 100 }
      text.clear
    end
    30.times { grow }
    GC.start
  RUBY
  grown = image.sites.select { |site| site.labels.include?("Object#grow") && site.kind == :payload }
  check(grown.sum(&:bytes) > 10_000_000) { grown.sum(&:bytes).to_s }
  check(grown.sum(&:live_bytes) < 2_100_000) { grown.sum(&:live_bytes).to_s }
end

claim "Ashlar::Profile starts, stops and dumps, and GC.config says whether samples are taken", only: "ashlar" do
  ruby_prints("off on off\ndone\ntrue\n", <<~'RUBY', "-I#{LIBRARY_FOLDER}")
    require "ashlar/profile"
    states = [GC.config[:profile]]
    Ashlar::Profile.start(bytes: 4096)
    states << GC.config[:profile]
    $kept = Array.new(10_000) { "kept" * 20 }
    Ashlar::Profile.dump("one.heap")
    Ashlar::Profile.stop
    states << GC.config[:profile]
    puts states.join(" ")
    puts Ashlar::Profile.record("two.heap") { $more = Array.new(1_000) { "more" * 100 }; "done" }
    p GC.config[:profile_bytes] == 4096
  RUBY
  one, two = %w[one two].map { HeapImage.read(File.join(folder, "#{_1}.heap")) }
  check_equal([:on_request] * 2, [one.written, two.written])
  check(one.live_bytes.between?(600_000, 2_500_000)) { one.live_bytes.to_s }
  check(two.live_bytes < one.live_bytes) { two.live_bytes.to_s }
end

{ "has become old since" => {}, "major collections have kept since" => { "ASHLAR_SPACE_OVERHEAD" => "40", **stress("no-minor") } }.each do |what, env|
  claim "a profile tells a leak that a full collection found live from garbage that #{what}, exactly", only: "ashlar" do
    image = profiled(<<~'RUBY', env:)
      def leak = Array.new(5_000) { "leak" * 100 }
      def gone = Array.new(5_000) { "gone" * 100 }
      def late = Array.new(5_000) { "late" * 100 }
      $leak, $gone = leak, gone
      4.times { GC.start(full_mark: false) }
      $gone = nil
      GC.start
      $late = late
      4.times { GC.start(full_mark: false) }
      $late = nil
    RUBY
    leak, gone, late = %w[leak gone late].map { image.found_live_and_made_since("Object##{_1}") }
    check(leak[0] > 300 && leak[1].zero?) { leak.inspect }
    check(gone.sum < 10) { gone.inspect }
    check(late[0].zero? && late[1] > 300) { late.inspect }
  end
end

claim "garbage that is made while a full collection marks is not said to be found live by it", only: "ashlar" do
  profiled(<<~'RUBY', period: "1KiB", env: { "ASHLAR_SLICE_US" => "100", "RUBY_GC_HEAP_OLDOBJECT_LIMIT_FACTOR" => "0.9" })
    def junk = 50.times { "junk" * 20 }
    $kept = Array.new(100_000) { "kept" * 8 }
    GC.start
    full = GC.stat(:major_gc_count)
    while GC.stat(:major_gc_count) == full || GC.latest_gc_info(:state) == :marking
      junk
      $kept << "kept" * 20
    end
    GC.disable # when all is swept
    GC.config(profile: "now.heap")
  RUBY
  image = HeapImage.read(File.join(folder, "now.heap"))
  check_equal(image.numbers[10] + image.numbers[11], image.full_collection)
  check(image.numbers[25].between?(1, image.numbers[11])) { image.numbers.inspect }
  found_live, made_since = image.found_live_and_made_since("Object#junk")
  check(found_live < 10 && made_since < 30) { [found_live, made_since].inspect }
end

claim "a profile that is written while a full collection sweeps ends it, as whoever waits for that learns", only: "ashlar" do
  ruby_prints("sweeping none\n", <<~'RUBY')
    GC.config(profile: "on")
    $kept = Array.new(100_000) { [Object.new] }.each_slice(2).map(&:first)
    GC.disable
    GC.start(immediate_sweep: false)
    before = GC.latest_gc_info(:state)
    GC.config(profile: "now.heap")
    puts "#{before} #{GC.latest_gc_info(:state)}"
  RUBY
  image = HeapImage.read(File.join(folder, "now.heap"))
  check_equal(image.numbers[10] + image.numbers[11], image.full_collection)
end

claim "names of classes and files may have any bytes in them, and the profile has them", only: "ashlar" do
  finished = ruby(<<~'RUBY', env: { "ASHLAR_PROFILE_BYTES" => "4KiB" })
    GC.config(profile: "on")
    named = Class.new(String).set_temporary_name("a\0b")
    named.class_eval { def go = $more = Array.new(200) { "y" * 2_000 } }
    anonymous = Class.new(named)
    $kept = Array.new(200) { named.new << "x" * 2_000 }
    $less = Array.new(200) { anonymous.new << "x" * 2_000 }
    named.new.go
    $yet = eval("Array.new(200) { 'z' * 2_000 }", binding, "c\0d\xFF.rb", 1)
    sleep 0.01
    GC.config(profile: "it.heap")
  RUBY
  check_equal([true, ""], [finished.ok?, finished.err]) { finished.describe }
  sites = HeapImage.read(File.join(folder, "it.heap")).sites
  classes, labels = sites.map(&:class_name), sites.flat_map(&:labels)
  check(["a\0b", "(anonymous a\0b)"].all? { classes.include?(_1) }) { classes.uniq.inspect }
  check(labels.include?("go")) { labels.uniq.inspect } # Ruby cannot put the class before it
  paths = sites.flat_map { |site| site.stack.map(&:path) }
  check(paths.include?("c\0d\uFFFD.rb")) { paths.uniq.inspect }
end

claim "writing a profile takes no memory for objects that own none, however many there are", only: "ashlar" do
  finished = ruby(<<~'RUBY', limit: 120, env: { "ASHLAR_PROFILE_BYTES" => "1KiB" })
    GC.config(profile: "on")
    kept = Array.new(20_000) { "k" * 2_000 } # more than there is room for
    small = Array.new(1_500_000) { [1, 2, 3] }
    highest = -> { File.read("/proc/self/status")[/^VmHWM:\s+(\d+)/, 1].to_i }
    before = highest.call
    GC.config(profile: "it.heap")
    puts highest.call - before
    abort unless kept.size + small.size == 1_520_000
  RUBY
  check(finished.ok? && finished.out.to_i < 12_000) { finished.describe }
end

claim "a profile that cannot be written is one clear line, and nothing is left of it", only: "ashlar" do
  { "/no/such/folder/x.heap" => "there is no folder /no/such/folder", "/dev/null" => "it is there and is no file",
    folder => "it is there and is no file" }.each do |path, reason|
    finished = ruby("puts :never", env: { "ASHLAR_PROFILE" => path })
    check_equal(1, finished.status.exitstatus) { finished.describe }
    check(finished.err.lines.size == 1 && finished.err.start_with?("ashlar: ASHLAR_PROFILE=#{path}: #{reason}")) { finished.err }
  end
  { "ASHLAR_PROFILE_BYTES" => "12", "ASHLAR_LIVE" => "yes" }.each do |name, value|
    finished = ruby("puts :never", env: { name => value })
    check(!finished.ok? && finished.err.start_with?("ashlar: #{name}=#{value}: ")) { finished.describe }
  end
  ruby_prints("profile=full/x.heap: File too large; nothing has been written\n[]\n", <<~'RUBY')
    Dir.mkdir("full")
    GC.config(profile: "on")
    Process.setrlimit(:FSIZE, 4096)
    begin
      GC.config(profile: "full/x.heap")
    rescue ArgumentError => error
      puts error.message
    end
    p Dir.children("full")
  RUBY
  # A link of the system's: where it is /dev/stdout, a file in its place would be everybody's.
  ruby_prints("profile=/proc/self/fd/N: it is there and is no file\n0\n", <<~'RUBY')
    GC.config(profile: "on")
    file = File.open("out", "w")
    begin
      GC.config(profile: "/proc/self/fd/#{file.fileno}")
    rescue ArgumentError => error
      puts error.message.sub(/\d+/, "N")
    end
    puts file.size
  RUBY
  finished = ruby('GC.config(profile: "early.heap")')
  check(finished.err.include?("nothing has been sampled")) { finished.describe }
end

claim "where a limit of the size of files is in the way, a profiled program runs to its end", only: "ashlar" do
  finished = ruby("Process.setrlimit(:FSIZE, 4096); KEEP = Array.new(3_000) { 's' * 300 }; puts :end", env: { "ASHLAR_PROFILE" => "late.heap", "ASHLAR_PROFILE_BYTES" => "4KiB" })
  check_equal([0, "end\n"], [finished.status.exitstatus, finished.out]) { finished.describe }
  check_match(/\Aashlar: profile=\S*late\.heap: File too large; nothing has been written\n\z/, finished.err)
  finished = ruby(<<~'RUBY')
    Process.setrlimit(:FSIZE, 4096)
    exec(RbConfig.ruby, "--disable-gems", "-e", "GC.config(profile: 'on'); puts :end")
  RUBY
  check_equal([0, "end\n"], [finished.status.exitstatus, finished.out]) { finished.describe }
  check_equal([], Dir.glob(File.join(folder, "{*.heap,.ashlar-*.part}"), File::FNM_DOTMATCH))
end

claim "forked children have profiles of their own, which begin with nothing in them", only: "ashlar" do
  finished = ruby(<<~'RUBY', env: { "ASHLAR_PROFILE" => "it.heap", "ASHLAR_PROFILE_BYTES" => "4KiB" })
    $shared = Array.new(5_000) { "s" * 200 }
    pids = Array.new(2) { |n| fork { $mine = Array.new(2_000 * (n + 1)) { "m" * 300 }; $shared.clear; GC.start } }
    pids.each { Process.wait(_1); abort $?.inspect unless $?.success? }
    puts pids
  RUBY
  check(finished.ok?) { finished.describe }
  pids = finished.out.lines.map(&:to_i)
  parent, first, second = ["it.heap", *pids.map { "it.heap.#{_1}" }].map { HeapImage.read(File.join(folder, _1)) }
  check_equal(pids, [first.process, second.process])
  shared, mine = [1, 2].map { |line| [parent, first, second].map { |image| image.sites.select { |s| s.places.any? { _1.end_with?(".rb:#{line}") } }.sum(&:live_bytes) } }
  check(shared[0] > 700_000 && shared[1..] == [0, 0]) { shared.inspect }
  check(mine[0] < 100_000 && mine[1].between?(300_000, 1_000_000) && mine[2] > 800_000) { mine.inspect }
  check([first, second].all? { _1.started_unix_ns > parent.started_unix_ns }) { "children have started with their parent" }
end

claim "what a forked child's numbers count begins with the child, and what they measure is there from the start", only: "ashlar" do
  finished = ruby(<<~'RUBY', env: { "ASHLAR_PROFILE" => "it.heap", "ASHLAR_PROFILE_BYTES" => "4KiB" })
    def mine = Array.new(5_000) { "m" * 500 }
    $kept = Array.new(5_000) { "k" * 500 }
    500_000.times { "junk" * 20 }
    6.times { GC.start }
    pids = [fork { }, fork { $mine = mine; 3.times { GC.start } }]
    pids.each { Process.wait(_1); abort $?.inspect unless $?.success? }
    puts pids
  RUBY
  check(finished.ok?) { finished.describe }
  parent, idle, busy = ["it.heap", *finished.out.lines.map { "it.heap.#{_1.to_i}" }].map { HeapImage.read(File.join(folder, _1)) }
  counts = [8, 9, 10, 11, 12, 13, 14, 15, 16, 25]
  told = [parent, idle, busy].map { _1.numbers.values_at(*counts) }
  check(told[1].zip(told[0]).all? { |child, parent| child <= parent / 3 }) { told.inspect }
  check(told[2].zip(told[0]).first(3).all? { |child, parent| child <= parent / 3 }) { told.inspect } # times differ from run to run
  check([idle, busy].all? { _1.numbers[0] > 2_000_000 }) { "the child has what its parent kept" }
  check_equal([3, 0], [busy.numbers[25], idle.numbers[25]])
  check_equal([busy.numbers.values_at(10, 11).sum, 0], [busy, idle].map(&:full_collection))
  found, since = busy.found_live_and_made_since("Object#mine")
  check(found > 100 && since.zero?) { [found, since].inspect }
end

claim "a full collection that marks during a fork is the child's first, and is not said to find live what the child makes meanwhile", only: "ashlar" do
  finished = ruby(<<~'RUBY', env: { "ASHLAR_PROFILE" => "it.heap", "ASHLAR_PROFILE_BYTES" => "1KiB", "ASHLAR_SLICE_US" => "100", "RUBY_GC_HEAP_OLDOBJECT_LIMIT_FACTOR" => "0.9" })
    def junk = 5.times { "junk" * 20 }
    $kept = Array.new(100_000) { "kept" * 8 }
    GC.start
    full = GC.stat(:major_gc_count)
    $kept << "kept" * 20 until GC.stat(:major_gc_count) > full && GC.latest_gc_info(:state) == :marking
    child = fork do
      before = GC.count - 1
      abort "it is over" unless GC.latest_gc_info(:state) == :marking
      junk while GC.latest_gc_info(:state) == :marking
      GC.disable # the next one may have begun
      1_000.times { junk }
      GC.config(profile: "child.heap")
      puts GC.count - before
    end
    Process.wait(child)
    abort $?.inspect unless $?.success?
  RUBY
  check(finished.ok?) { finished.describe }
  image = HeapImage.read(File.join(folder, "child.heap"))
  check_equal([finished.out.to_i] * 2, [image.numbers.values_at(10, 11).sum, image.full_collection])
  found_live, made_since = image.found_live_and_made_since("Object#junk")
  check(found_live < 10 && made_since > 100) { [found_live, made_since].inspect }
end

claim "a file of the program that has got the live image's number is not closed in a child", only: "ashlar" do
  ruby_ok <<~'RUBY', env: { "ASHLAR_LIVE" => "1" }
    open_files = -> { Dir.children("/proc/self/fd").to_h { [_1.to_i, (File.readlink("/proc/self/fd/#{_1}") rescue "")] } }
    image = open_files.call.find { |_, name| name.include?("ashlar-live") }.first
    IO.for_fd(image).close # as programs do that close all they find open when they begin
    reader, writer = IO.pipe
    abort "the pipe has not got the number #{image}" unless [reader, writer].any? { _1.fileno == image }
    Process.wait(fork { writer.write("x"); exit!(reader.read(1) == "x") })
    abort "the child: #{$?.inspect}" unless $?.success?
    puts "ok"
  RUBY
end

claim "children that are forked while other threads make and free samples have profiles that are whole", only: "ashlar" do
  finished = ruby(<<~'RUBY', "-r#{File.join(__dir__, "heap_image")}", limit: 120, env: { "ASHLAR_PROFILE" => "%p.heap", "ASHLAR_PROFILE_BYTES" => "1KiB" })
    stop = false
    threads = Array.new(3) { |n| Thread.new { kept = []; until stop; kept << "t#{n}" * 500; kept.shift(50) if kept.size > 100; end } }
    pids = Array.new(40) do
      sleep 0.005
      fork { kept = Array.new(300) { "c" * 700 }; GC.start; kept.clear; GC.start; $last = Array.new(100) { "l" * 900 } }
    end
    pids.each { Process.wait(_1); abort $?.inspect unless $?.success? }
    stop = true
    threads.each(&:join)
    pids.each do |pid|
      image = HeapImage.read("#{pid}.heap")
      live = image.live_samples.map { |_, site, *| site }.tally
      image.sites.each_with_index do |site, number|
        abort "#{pid}: site #{number} has #{site.live_samples} samples, and #{live[number].to_i} are there" if site.live_samples != live[number].to_i
        abort "#{pid}: #{site.live_bytes}" unless site.live_bytes.between?(0, site.bytes + 1)
      end
      abort "#{pid} knows of its parent" if image.sites.any? { |site| site.labels.any? { _1.include?("block (3 levels)") } && site.bytes > 0 && site.places.first.end_with?(".rb:2") }
    end
    puts "ok"
  RUBY
  check_equal("ok\n", finished.out) { finished.describe }
end

claim "a payload that cannot be made larger is a sample as before", only: "ashlar" do
  image = profiled(<<~'RUBY', address_space: 1 << 30, limit: 120)
    def large = $large = "l" * (150 << 20)
    large
    refused = 0
    3.times do
      $large << ("m" * 1) * (1 << 20) * 300
    rescue NoMemoryError
      refused += 1
    end
    abort "#{$large.bytesize} after #{refused}" unless refused == 3 && $large.bytesize == 150 << 20
    GC.start
  RUBY
  live = image.sites.select { _1.labels.include?("Object#large") && _1.kind == :payload }.sum(&:live_bytes)
  check(live.between?(149 << 20, 160 << 20)) { live.to_s }
end

claim "payloads that come from libc's malloc are samples until they are freed", only: "ashlar" do
  image = profiled(<<~'RUBY', env: { "ASHLAR_MALLOC" => "libc" })
    def churn = 20_000.times { "c" * 2_000 }
    def grow = 200.times { text = +""; 100.times { text << "0123456789" * 10 } }
    churn
    grow
    GC.start
  RUBY
  made = image.sites.select { |site| site.kind == :payload && (site.labels & %w[Object#churn Object#grow]).any? }
  check(made.sum(&:bytes) > 30_000_000) { made.sum(&:bytes).to_s }
  check(made.sum(&:live_bytes) < 1_000_000) { made.sum(&:live_bytes).to_s }
end

# What all ways to a profile have in common.
{
  "at the end" => "", "on request" => 'GC.config(profile: "it.heap"); exit!(0)', "at a crash" => "Process.kill(:SEGV, $$); sleep 5"
}.each do |which, ending|
  claim "a profile that is written #{which} is for its user alone, replaces links and follows none, under a name that nobody guesses", only: "ashlar" do
    plant = {
      nothing: ->(_) {}, symlink: ->(place) { File.symlink("other", place) }, dangling: ->(place) { File.symlink("nothing", place) },
      "hard link": ->(place) { File.link(File.join(folder, "other"), place) },
      "file of another user's": lambda do |place|
        File.write(place, "theirs")
        File.chmod(0o666, place)
        File.chown(65534, nil, place) if Process.euid.zero?
        File.link(place, File.join(folder, "theirs"))
      end
    }
    plant.each do |what, put|
      place = File.join(folder, "it.heap")
      File.write(File.join(folder, "other"), "precious")
      put[place]
      ruby("File.umask(0); $kept = Array.new(500) { 'k' * 500 }\n#{ending}", env: { "ASHLAR_PROFILE" => "it.heap", "ASHLAR_PROFILE_BYTES" => "4KiB" })
      found = File.lstat(place)
      check(found.file? && found.mode & 0o777 == 0o600 && found.nlink == 1) { "#{what}: #{found.inspect}" }
      check_equal({ "at the end" => :at_the_end, "on request" => :on_request, "at a crash" => :at_a_crash }[which], HeapImage.read(place).written)
      check_equal("precious", File.read(File.join(folder, "other")))
      check(!File.exist?(File.join(folder, "nothing"))) { "a dangling link was followed" }
      check_equal("theirs", File.read(File.join(folder, "theirs"))) if what.to_s.start_with?("file")
      check(Dir.children(folder).grep(/part/).empty?) { Dir.children(folder).inspect }
      File.unlink(place)
    end
  end
end

claim "a crash leaves alone what has been put under the profile's name since the program began", only: "ashlar" do
  place = File.join(folder, "it.heap")
  { 'File.write("it.heap", "another process")' => -> { File.read(place) == "another process" },
    'Dir.mkdir("it.heap")' => -> { Dir.empty?(place) } }.each do |put, is_left_alone|
    ruby("sleep 0.05; #{put}\nProcess.kill(:SEGV, $$); sleep 5", env: { "ASHLAR_PROFILE" => "it.heap" })
    check(is_left_alone.call) { put }
    numbered = Dir.children(folder).grep(/heap\.\d+\z/)
    check(Dir.children(folder).grep(/heap|part/).size == 2 && numbered.size == 1) { Dir.children(folder).inspect }
    check_equal(:at_a_crash, HeapImage.read(File.join(folder, numbered.first)).written)
    File.unlink(File.join(folder, numbered.first))
    File.directory?(place) ? Dir.rmdir(place) : File.unlink(place)
  end
end

claim "a profile goes where its name led when the program began", only: "ashlar" do
  ruby_prints("", 'Dir.mkdir("elsewhere"); Dir.chdir("elsewhere")', env: { "ASHLAR_PROFILE" => "it.heap" })
  check(File.exist?(File.join(folder, "it.heap"))) { Dir.children(folder).inspect }
end

claim "a profile has the command line in it only where that is asked for", only: "ashlar" do
  secret = ["--", "--password=hunter2"]
  run = lambda do |env, source = ""|
    path = File.join(folder, "program.rb")
    File.write(path, source)
    finished = ruby_command([path, *secret], env: { "ASHLAR_PROFILE" => "it.heap", **env })
    check(finished.ok?) { finished.describe }
    File.binread(File.join(folder, "it.heap"))
  end
  check(!run[{}].include?("hunter2")) { "the command line is in the profile" }
  check(run[{ "ASHLAR_PROFILE_COMMAND_LINE" => "1" }].include?("hunter2")) { "it is not there" }
  check(run[{}, "GC.config(profile_command_line: true)"].include?("hunter2")) { "it is not there" }
  check(!run[{ "ASHLAR_PROFILE_COMMAND_LINE" => "1" }, "GC.config(profile_command_line: false)"].include?("hunter2")) { "it is still there" }
  check(run[{ "ASHLAR_PROFILE_COMMAND_LINE" => "1" }, "Process.wait(fork { }); exit!(0) if false"].include?("hunter2")) { "it is not there" }
  finished = ruby("puts :never", env: { "ASHLAR_PROFILE_COMMAND_LINE" => "yes" })
  check(!finished.ok? && finished.err == "ashlar: ASHLAR_PROFILE_COMMAND_LINE=yes: 0 or 1 is wanted\n") { finished.describe }
end

claim "the live image is a file for its user alone", only: "ashlar" do
  ruby_prints("600\n", <<~'RUBY', env: { "ASHLAR_LIVE" => "1" })
    image = Dir["/proc/self/fd/*"].find { File.readlink(_1).include?("ashlar-live") rescue false }
    puts (File.stat(image).mode & 0o777).to_s(8)
  RUBY
end

claim "%p in the name is the process's number, and a program started by another does not write over its profile", only: "ashlar" do
  finished = ruby(<<~'RUBY', env: { "ASHLAR_PROFILE" => "%p.heap" })
    puts $$
  RUBY
  check(File.exist?(File.join(folder, "#{finished.out.to_i}.heap"))) { Dir.children(folder).inspect }
  outer = ruby(<<~'RUBY', env: { "ASHLAR_PROFILE" => "both.heap" })
    puts $$
    system(RbConfig.ruby, "-e", "puts $$") or abort
  RUBY
  check(outer.ok?) { outer.describe }
  first, second = outer.out.lines.map(&:to_i).sort
  images = Dir[File.join(folder, "both.heap*")].map { HeapImage.read(_1).process }
  check_equal([first, second], images.sort)
end

claim "after a crash the profile has what was sampled until then", only: "ashlar" do
  finished = ruby(<<~'RUBY', env: { "ASHLAR_PROFILE" => "it.heap", "ASHLAR_PROFILE_BYTES" => "4KiB" })
    $kept = Array.new(5_000) { "k" * 500 }
    Process.kill(:SEGV, $$)
    sleep 5
  RUBY
  check(!finished.ok?) { finished.describe }
  image = HeapImage.read(File.join(folder, "it.heap"))
  check_equal(:at_a_crash, image.written)
  check(image.live_bytes > 2_000_000) { image.live_bytes.to_s }
end

claim "another process reads the image while the program runs, without its doing anything for that", only: "ashlar" do
  out = File.join(folder, "out")
  source = File.join(folder, "runs.rb")
  File.write(source, <<~'RUBY')
    $kept = Array.new(5_000) { "k" * 500 }
    GC.start
    File.write("ready", "")
    # The longest is enough for a reader on an emulated machine.
    loop { [0.001, 0.01, 0.5].each { |pause| 1_000.times { "junk" * 20 }; sleep pause } }
  RUBY
  environment = Subject.environment("ASHLAR_PROFILE" => "it.heap", "ASHLAR_PROFILE_BYTES" => "4KiB")
  pid = Process.spawn(environment, Subject.ruby, source, chdir: folder, out:)
  begin
    sleep 0.05 until File.exist?(File.join(folder, "ready"))
    images = Array.new(10) { sleep 0.05; HeapImage.of_process(pid) }
    check(images.all? { _1.process == pid && _1.written == :live && _1.live_bytes > 2_000_000 }) { images.map(&:live_bytes).inspect }
    check(images.last.allocated_bytes > images.first.allocated_bytes) { "the image stands still" }
    check(images.last.numbers[0] > 2_000_000) { images.last.numbers.inspect }
    check_equal([], images.last.sites.map(&:places).flatten.grep(/^:/))
  ensure
    Process.kill(:TERM, pid)
    Process.wait(pid)
  end
end

claim "ASHLAR_LIVE=1 shows live numbers and takes no samples", only: "ashlar" do
  ruby_prints("0 true\n", <<~'RUBY', "-r#{File.join(__dir__, "heap_image")}", env: { "ASHLAR_LIVE" => "1" })
    $kept = Array.new(5_000) { "k" * 500 }
    GC.start
    image = HeapImage.of_process($$)
    puts "#{image.period_bytes} #{image.numbers[0] > 2_000_000 && image.numbers[11] > 0}"
  RUBY
end

claim "Ractors and threads are sampled", only: "ashlar" do
  image = profiled(<<~'RUBY')
    Warning[:experimental] = false
    def make(n) = Array.new(n) { |i| "r#{i}" * 30 }
    kept = Array.new(3) { Ractor.new { make(3_000).size } }.map(&:value)
    $kept = Array.new(3) { Thread.new { make(3_000) } }.map(&:value)
    GC.start
  RUBY
  made = image.sites.select { |site| site.labels.include?("Object#make") && site.class_name == "String" && site.kind == :cell }
  bytes = made.sum(&:bytes)
  check(bytes.between?(1_000_000, 6_000_000)) { bytes.to_s }
end

claim "samples follow objects that move, and names of classes and methods that move stay right", only: "ashlar" do
  image = profiled(<<~'RUBY', period: "1KiB", env: stress("move-everything", "verify"))
    class Mover; def initialize = @a = [1] * 40; end
    # In a thread, so that no word left on the main stack keeps the movers that are dropped.
    Thread.new do
      made = []
      200.times { |i| made.concat(Array.new(10) { Mover.new }); GC.start if i % 20 == 0 }
      $kept = made.each_slice(2).map(&:first)
    end.join
    GC.start
    GC.compact
  RUBY
  movers = image.sites.select { _1.class_name == "Mover" }
  check_estimate(1_000, movers.sum(&:live_objects), movers.sum(&:live_samples))
end

claim "more places than there is room for are counted together, and the image does not grow", only: "ashlar" do
  image = profiled(<<~'RUBY', period: "1KiB", limit: 120)
    12_000.times { |i| eval("def m#{i} = 'y' * 4000\n", binding, "f#{i}.rb", 1); send("m#{i}") }
    $kept = Array.new(20_000) { "k" * 2_000 }
  RUBY
  check(image.dropped_samples > 1_000) { image.dropped_samples.to_s }
  check(File.size(File.join(folder, "it.heap")) < 5 << 20) { "too large" }
  check(image.allocated_bytes > 80_000_000) { image.allocated_bytes.to_s }
end

claim "a heap under stress is verified with every second object sampled", only: "ashlar" do
  profiled(<<~'RUBY', period: "1KiB", limit: 120, env: stress("collect-every:211", "verify", "poison"))
    kept = {}
    20.times do |round|
      c = Class.new { define_method(:go) { |x| [x, x.to_s * 50, { x => [x] }] } }
      100.times { |i| kept[i] = c.new.go(i) }
      kept.each { |i, (x, text)| abort "lost" unless x == i && text == i.to_s * 50 }
    end
  RUBY
end

claim "a program that is out of memory raises NoMemoryError, and its profile says what took the memory", only: "ashlar" do
  image = profiled(<<~'RUBY', address_space: 512 << 20, limit: 120)
    kept = []
    begin
      loop { kept << "k" * 3_000 }
    rescue NoMemoryError
      size = kept.size
    end
    $half = kept.first(size / 2)
    kept = nil
    puts size
  RUBY
  top = image.sites.max_by(&:bytes)
  check(top.places.first&.end_with?(".rb:3") && top.bytes > 20_000_000) { top.inspect }
end

claim "a signal in the middle of collections leaves the profile whole", only: "ashlar" do
  image = profiled(<<~'RUBY')
    got = 0
    trap(:USR1) { got += 1; Array.new(50) { "in the handler" * 10 } }
    # As long as it takes: while a process does not run, several signals are one.
    receiver = $$
    sender = fork { loop { Process.kill(:USR1, receiver); sleep 0.002 } }
    $kept = []
    until got > 100
      $kept << Array.new(100) { "text" * 30 }
      $kept.shift if $kept.size > 100
    end
    Process.kill(:KILL, sender)
    Process.wait(sender)
  RUBY
  check(image.allocated_bytes > 1_000_000) { image.allocated_bytes.to_s }
end
