# frozen_string_literal: true

# What happens while a Ruby program loads its code, file by file: `ashlar boot` has every Ruby
# of the command it runs load this file first. Works on any collector.
#
# A file counts from the call of `require`, `require_relative`, `load` or an autoload to its
# return. What the files that it loads in turn take is theirs, not its own. The compiler's
# share is what lies between Ruby's asking for a file's compiled form and its being compiled.
module AshlarBoot
  # One file: nanoseconds, and objects, of its own and with all that it loads.
  Loaded = Struct.new(:path, :order, :own_ns, :total_ns, :own_objects, :total_objects, :own_collecting_ns, :depth)
  # A call of require that has not returned.
  Frame = Struct.new(:path, :order, :began, :inner_ns, :inner_objects, :inner_collecting_ns)
  # A moment: wall-clock time, objects allocated so far, time in the collector so far.
  Moment = Struct.new(:ns, :objects, :collecting_ns)

  STACK = :ashlar_boot_stack
  @files = []
  @compiled = { files: 0, ns: 0, objects: 0 }
  @from_binary = { files: 0, ns: 0, objects: 0 }
  @order = 0
  @written = false

  class << self
    def moment = Moment.new(Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond), GC.stat(:total_allocated_objects), GC.total_time)

    # A file is about to be loaded. A Ractor hands most files over to the main one, which loads them and counts them here.
    def entered(feature)
      return unless main?

      frame = Frame.new(feature, @order += 1, moment, 0, 0, 0)
      stack.push(frame)
      frame
    end

    # It counts if it was `loaded`; then the block says which one it was.
    def left(frame, loaded, &)
      return unless frame

      stack.pop
      ended(frame, loaded, &)
    end

    # The file that `require_relative` means. Code of eval has no absolute path, but the path that eval was given, or "(eval at ...)".
    def beside(caller, feature)
      base = caller.absolute_path || caller.path
      raise LoadError, "cannot infer basepath", caller(2) if base.start_with?("(eval")

      File.absolute_path(feature, File.dirname(base))
    end

    # The file that `load` finds: a name that does not begin with a folder is looked for in $LOAD_PATH first.
    def found(file)
      name = File.path(file)
      folders = name.start_with?("/", "./", "../", "~") ? [] : $LOAD_PATH
      folders.map { |folder| File.expand_path(name, folder) }.find { |path| File.file?(path) } || File.expand_path(name)
    end

    # Adds what the block takes to `sum`.
    def adding(sum)
      before = moment
      result = yield
      after = moment
      sum[:files] += 1
      sum[:ns] += after.ns - before.ns
      sum[:objects] += after.objects - before.objects
      result
    end

    def from_binary(&) = main? ? adding(@from_binary, &) : yield

    # The hook of the compiler: Ruby asks for the compiled form of a file, and gets none.
    def compiling(path)
      Thread.current.thread_variable_set(:ashlar_boot_compiling, [path, moment])
      nil
    end

    def compiled(path)
      asked, before = Thread.current.thread_variable_get(:ashlar_boot_compiling)
      return if @written || !before || asked != path

      Thread.current.thread_variable_set(:ashlar_boot_compiling, nil)
      after = moment
      @compiled[:files] += 1
      @compiled[:ns] += after.ns - before.ns
      @compiled[:objects] += after.objects - before.objects
    end

    def begin(report)
      @report = report
      @process = Process.pid
      @began = moment
      @began_stat = GC.stat
    end

    # Writes what there is, once. Another collection says what of it is still used. The program never gets an error of this.
    def write(why)
      return if !main? || @written || @process != Process.pid

      @written = true
      ended = moment
      wall_ns = since_boot_ns - process_began_ns
      stat = GC.stat
      @code_cache = Ashlar::CodeCache.stat if defined?(Ashlar::CodeCache.stat)
      GC.start
      kept = GC.stat(:total_allocated_objects) - GC.stat(:total_freed_objects)
      ashlar_boot_require("json") # measuring is over
      put(JSON.generate(figures(why, ended, wall_ns, stat, kept)))
    rescue StandardError, LoadError => error
      warn "ashlar boot: process #{@process} cannot report what it loaded: #{error.message}"
    end

    private

    # Other Ractors cannot change what is kept here.
    def main? = Ractor.current == Ractor.main

    def stack = Thread.current.thread_variable_get(STACK) || Thread.current.thread_variable_set(STACK, [])

    def put(content)
      new = File.join(File.dirname(@report), ".ashlar-#{Random.urandom(16).unpack1("H*")}.part")
      File.open(new, File::WRONLY | File::CREAT | File::EXCL | File::NOFOLLOW, 0o600) { |file| file.write(content) }
      File.rename(new, "#{@report}.#{@process}")
    end

    def ended(frame, loaded)
      after = moment
      ns = after.ns - frame.began.ns
      objects = after.objects - frame.began.objects
      collecting_ns = after.collecting_ns - frame.began.collecting_ns
      if (outer = stack.last)
        outer.inner_ns += ns
        outer.inner_objects += objects
        outer.inner_collecting_ns += collecting_ns
      end
      return if !loaded || @written

      @files << Loaded.new(yield || frame.path, frame.order, ns - frame.inner_ns, ns, objects - frame.inner_objects, objects,
                           collecting_ns - frame.inner_collecting_ns, stack.size)
    end

    def figures(why, ended, wall_ns, stat, kept)
      { why:, process: @process, command: [$PROGRAM_NAME, *ARGV].map { |text| utf8(text) }, ruby: RUBY_DESCRIPTION,
        collector: (GC.config[:implementation] if GC.respond_to?(:config)) || "default",
        wall_ns:, cpu_ns: Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID, :nanosecond),
        collecting_ns: ended.collecting_ns, objects: ended.objects, kept_objects: kept,
        collections: stat[:count],
        # A major collection of Ashlar may pass over settled cells; of other collectors each is a full one.
        full_collections: stat[:complete_gc_count] || stat[:major_gc_count], rss_kib:, compiled: @compiled, from_binary: @from_binary,
        code_cache: @code_cache, files: @files.map { |file| file.to_h.merge(path: utf8(file.path)) } }
    end

    # Names of files and arguments are bytes, which the locale may call anything, and JSON is UTF-8.
    def utf8(text) = String.new(text.to_s, encoding: Encoding::UTF_8).scrub

    # The time that a machine sleeps counts in when a process began.
    def since_boot_ns = Process.clock_gettime(Process::CLOCK_BOOTTIME, :nanosecond)

    # In hundredths of a second: the 22nd field, the 20th behind the name.
    def process_began_ns = File.read("/proc/self/stat")[/\A.*\)\s+(.*)/m, 1].split[19].to_i * 10_000_000

    def rss_kib = File.read("/proc/self/status")[/^VmRSS:\s+(\d+)/, 1].to_i
  end
end

[Kernel, Kernel.singleton_class].each { |place| place.class_eval(File.read(File.join(__dir__, "hooks.rb")), "<internal:ashlar-boot>") }
Kernel.class_eval { private :require, :require_relative, :load, :ashlar_boot_require, :ashlar_boot_load }

class << RubyVM::InstructionSequence
  alias ashlar_boot_load_from_binary load_from_binary
  def load_from_binary(binary) = AshlarBoot.from_binary { ashlar_boot_load_from_binary(binary) }

  # A loader of compiled code, such as bootsnap, replaces this one; then Ruby compiles nothing
  # that it finds there.
  unless method_defined?(:load_iseq)
    def load_iseq(path) = AshlarBoot.compiling(path)
    alias load_iseq load_iseq # so `ruby -w` does not warn of the one that replaces it
  end
end

# Ashlar's code cache is there from the start. It keeps nothing for a method that calls its own, so this watches what it returns.
if RubyVM::InstructionSequence.method(:load_iseq).source_location&.first == "<internal:ashlar>"
  TracePoint.new(:return) { |point| AshlarBoot.compiling(point.binding.local_variable_get(:path)) unless point.return_value }
            .enable(target: RubyVM::InstructionSequence.method(:load_iseq))
end

class << Process
  if method_defined?(:warmup)
    alias ashlar_boot_warmup warmup
    def warmup
      AshlarBoot.write("Process.warmup")
      ashlar_boot_warmup
    end
  end
end

TracePoint.new(:script_compiled) { |point| AshlarBoot.compiled(point.instruction_sequence.path) unless point.eval_script }.enable
AshlarBoot.begin(ENV.fetch("ASHLAR_BOOT_REPORT"))
at_exit { AshlarBoot.write("its end") }
