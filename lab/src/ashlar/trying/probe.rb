# frozen_string_literal: true

# What the collector of a Ruby process has done: `ashlar try` has every Ruby of the command that it runs load this file first.
# Works on any collector, and does nothing between its moments: the start, a fork, a signal that only `ashlar try` sends, the end.
#
# Each process appends lines to a file of its own: what happened, the clock, collections, major ones, full ones, nanoseconds in the collector.
# A major collection of Ashlar may pass over settled cells; of other collectors each is a full one.
# What a forked process has from its parent the reader takes off: its first line is that of the fork.
module AshlarTry
  FOLDER = ENV["ASHLAR_TRY_FOLDER"]&.dup.freeze
  RUBY = File.realpath("/proc/self/exe").freeze

  class << self
    def tell(what)
      stat = GC.stat
      major = stat[:major_gc_count] || 0
      full = stat[:complete_gc_count] || major
      line = "#{what} #{Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)} #{GC.count} #{major} #{full} #{GC.total_time}\n"
      # A single write without Ruby's buffers: it works in a handler of a signal too.
      File.open("#{FOLDER}/gc.#{Process.pid}", File::WRONLY | File::CREAT | File::APPEND) { |file| file.syswrite(line) }
    rescue SystemCallError, IOError, ThreadError
      nil # a full disk, another user, a process that may write no file: the program goes on
    end

    # Neither runs handlers of at_exit. Servers end their forked processes with the first.
    def watch_ends
      at_exit { tell("ended") }
      replace(:exit!, "AshlarTry.tell('ended')")
      replace(:exec, "arguments = AshlarTry.leave(arguments)")
    end

    # The arguments for an exec. A program of a gem names the Ruby that the gem was installed with in its first line, and Bundler
    # starts it as it is.
    def leave(arguments)
      tell("left")
      at = arguments.first.is_a?(Hash) ? 1 : 0
      of_other_ruby?(arguments[at]) ? arguments.dup.insert(at, RUBY) : arguments
    end

    def watch_forks
      Process.singleton_class.prepend(Module.new do
        def _fork
          pid = super
          AshlarTry.tell("forked") if pid.zero?
          pid
        end
      end)
    end

    def answer_signals = trap("PWR") { tell("asked") }

    private

    # Has a method of Kernel and Process do something first. Methods that are made of text work in every Ractor.
    def replace(name, first)
      was = "#{name.to_s.delete("!")}_of_ruby"
      [Kernel, Kernel.singleton_class, Process.singleton_class].each do |place|
        place.class_eval <<~CODE, __FILE__, __LINE__ + 1
          alias_method :#{was}, :#{name}
          def #{name}(*arguments)
            #{first}
            #{was}(*arguments)
          end
          private :#{was}
        CODE
      end
      Kernel.send(:private, name)
    end

    def of_other_ruby?(program)
      return false unless program.is_a?(String) && program.start_with?("/") && File.file?(program)

      first = File.binread(program, 256).to_s
      return false unless first.start_with?("#!/") && !first.lines.first.include?("\0")

      interpreter, = first.lines.first.delete_prefix("#!").split
      File.basename(interpreter).start_with?("ruby") && File.exist?(interpreter) && File.realpath(interpreter) != RUBY
    rescue SystemCallError
      false
    end
  end

  if FOLDER && RUBY_ENGINE == "ruby" && GC.respond_to?(:total_time)
    tell("began")
    watch_ends
    watch_forks
    answer_signals
  end
end
