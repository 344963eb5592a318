# frozen_string_literal: true

# Strings that loading compiled code allocates. After the measurement of Ruby feature 17610: what
# is counted are Strings that two loads of the same script leave.
#   load_from_binary.rb             a script with two classes and two methods
#   load_from_binary.rb library     the files of Ruby's own library, each loaded once
require "objspace"
require "rbconfig"

SCRIPT = <<~RUBY
  class Foo
    def initialize
    end
  end

  class Bar
    def initialize
    end
  end
RUBY
PRELOADED = %i[Foo Bar initialize].freeze
class Foo; end
class Bar; end

# Strings and all objects that the block allocates, with the collector off.
def allocated
  GC.start
  GC.disable
  strings = ObjectSpace.count_objects[:T_STRING]
  objects = GC.stat(:total_allocated_objects)
  yield
  objects = GC.stat(:total_allocated_objects) - objects
  strings = ObjectSpace.count_objects[:T_STRING] - strings
  GC.enable
  [strings, objects]
end

allocated { nil }
if ARGV.first == "library"
  binaries = Dir.glob("**/*.rb", base: RbConfig::CONFIG.fetch("rubylibdir")).sort.filter_map do |file|
    RubyVM::InstructionSequence.compile_file(File.join(RbConfig::CONFIG["rubylibdir"], file)).to_binary
  rescue SyntaxError
    nil
  end
  sources = binaries.size
  strings, objects = allocated { binaries.each { |binary| RubyVM::InstructionSequence.load_from_binary(binary) } }
  puts "#{sources} files, #{strings} strings, #{objects} objects"
else
  binary = RubyVM::InstructionSequence.compile(SCRIPT).to_binary
  RubyVM::InstructionSequence.load_from_binary(binary)
  strings, = allocated { 2.times { RubyVM::InstructionSequence.load_from_binary(binary) } }
  puts "1 script loaded twice, #{strings} strings"
end
