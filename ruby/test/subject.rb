require "etc"

# The Ruby and the collector under test, and the starting of programs in it.
module Subject
  class << self
    attr_reader :collector, :library, :ruby, :source
  end

  module_function

  # Stacks are scanned word by word, so words that nobody initialized are no errors.
  VALGRIND = %w[valgrind --quiet --undef-value-errors=no --error-limit=no --error-exitcode=99 --max-stackframe=200000000000].freeze
  VALGRIND_SLOWDOWN = 30

  # collector: "ashlar"; "inside", the Ruby with Ashlar inside; "default", or the name of
  # another library Ruby can load.
  def set(collector, ruby_options, preload: false, slowdown: 1, valgrind: false)
    @collector = collector
    @library = { "ashlar" => ENV.fetch("ASHLAR_GC_LIBRARY", "ashlar"), "inside" => "ashlar" }.fetch(collector, collector)
    @ruby = ENV.fetch(inside? ? "RUBY_INSIDE" : "RUBY")
    @source = ENV.fetch("RUBY_SOURCE")
    @ruby_options = ruby_options
    @before_ruby = valgrind ? VALGRIND : []
    @slowdown = slowdown * (valgrind ? VALGRIND_SLOWDOWN : 1)
    @always = preload ? serving_malloc : {}
  end

  def inside? = @collector == "inside"

  # Whether a claim is about this collector: "ashlar" is the module or inside Ruby,
  # "module" the former alone, "libruby" the latter with a libruby.so.
  def is?(kind)
    kind == @collector || kind == "ashlar" && inside? || kind == "module" && @collector == "ashlar" ||
      kind == "libruby" && inside? && config["ENABLE_SHARED"] == "yes"
  end

  # As 3.4.5.
  def version = config["RUBY_PROGRAM_VERSION"]

  # Code of a method that was not called is its cell alone if this Ruby loads code when it first runs.
  LAZY_CODE = <<~'RUBY'
    require "objspace"
    code = RubyVM::InstructionSequence.load_from_binary(RubyVM::InstructionSequence.compile("def m = 1").to_binary)
    code.each_child { |child| exit ObjectSpace.memsize_of(child) < 200 }
  RUBY

  # What Ruby 4.0 shows to a collector inside it alone.
  HIDDEN = ["its timer thread before a fork", "its table of calls from C"].freeze

  # Whether a library of this name can be required; "lazy code", "ZJIT" and what is HIDDEN are none.
  def has?(library)
    return config["ZJIT_SUPPORT"] == "yes" if library == "ZJIT"
    return inside? || version.start_with?("3.") if HIDDEN.include?(library)

    @libraries ||= {}
    return @libraries[library] ||= (inside? && system(@ruby, "-e", LAZY_CODE)).to_s == "true" if library == "lazy code"

    @libraries.fetch(library) do
      @libraries[library] = system({ "RUBY_GC_LIBRARY" => nil }, @ruby, "-W0", "-e", "require ARGV[0]", library, err: File::NULL)
    end
  end

  # What makes the collector the process's malloc, which it always is inside Ruby.
  def serving_malloc = inside? ? {} : { "LD_PRELOAD" => library_path }

  # The path of the collector's library, for tests about the file itself.
  def library_path = File.join(config.fetch("modular_gc_dir"), "librubygc.#{@library}.so")

  # RbConfig of the Ruby under test.
  def config
    @config ||= Marshal.load(IO.popen([{ "RUBY_GC_LIBRARY" => nil }, @ruby, "--disable-gems", "-rrbconfig", "-e",
                                       "$stdout.binmode; print Marshal.dump(RbConfig::CONFIG.to_h)"], "rb", &:read))
  end

  def environment(extra)
    { "RUBY_GC_LIBRARY" => (@library unless inside?), "RUBYOPT" => nil, "RUBYLIB" => nil, "GEM_HOME" => nil, "GEM_PATH" => nil,
      "LANG" => "C.UTF-8", "MALLOC_ARENA_MAX" => nil }.merge(@always, extra)
  end

  def start(arguments, folder:, limit:, input:, env:, address_space:, chdir:)
    command = [*@before_ruby, @ruby, *@ruby_options, *arguments]
    command(environment(env), command, folder:, limit:, input:, address_space:, chdir:)
  end

  # Any command; its process group is ended at the time limit, which is longer on a slow machine.
  def command(environment, command, folder:, limit:, input: nil, address_space: nil, chdir: folder)
    out, err, inn = %w[out err in].map { File.join(folder, "#{_1}-#{Thread.current.object_id}-#{rand(1 << 30)}") }
    File.write(inn, input.to_s)
    options = { in: inn, out:, err:, chdir:, pgroup: true, rlimit_core: 0 }
    options[:rlimit_as] = address_space if address_space
    began = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    pid = Process.spawn(environment, *command, options)
    waiter = Process.detach(pid)
    begin
      timed_out = waiter.join(limit * @slowdown).nil?
    ensure
      end_group(pid)
    end
    status = waiter.value
    Finished.new(read(out), read(err), status, Process.clock_gettime(Process::CLOCK_MONOTONIC) - began, timed_out)
  end

  def read(path) = File.read(path, encoding: "UTF-8").scrub

  def end_group(pid)
    Process.kill("KILL", -pid)
  rescue Errno::ESRCH, Errno::EPERM
    nil
  end
end
