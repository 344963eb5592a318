# Grows, shrinks, compacts, starts threads and forks, and counts what the system refused on the way. All that it made is
# right afterwards, or it ends with a line that says what is not.
#   refused.rb MIB          how large its strings and arrays try to become, together
#   refused.rb MIB MAPPINGS once it has begun, the system lets a process have so many mappings more than it has
MIB = 1 << 20
REFUSALS = [NoMemoryError, Errno::ENOMEM, Errno::EAGAIN, ThreadError, FiberError].freeze
$refusals = Hash.new(0)

def attempt
  yield
rescue *REFUSALS => error
  $refusals[error.class.name] += 1
  nil
end

# What was made, and how it is told that it is whole.
class Model
  def initialize
    @strings = Array.new(4) { |index| [(97 + index).chr, +"", 0] }
    @numbers = []
    @words = {}
  end

  def grow(bytes)
    piece = bytes / 160
    20.times do
      @strings.each do |row|
        letter, text, = row
        attempt { text << letter * piece and row[2] += piece }
      end
      attempt { 2_000.times { @numbers << @numbers.size } }
      attempt { 200.times { |index| @words["w#{@words.size}"] = "value of #{@words.size} #{index}" } }
    end
  end

  def shrink
    @strings.each do |row|
      attempt { row[1].slice!(row[2] / 2..) and row[2] /= 2 }
      row[2] = row[1].bytesize
    end
    attempt { @numbers = @numbers.first(@numbers.size / 2) }
  end

  def check(where)
    @strings.each do |letter, text, bytes|
      next if text.bytesize == bytes && text.count(letter) == bytes

      abort "#{where}: #{text.bytesize} bytes, #{text.count(letter)} of them '#{letter}', #{bytes} expected"
    end
    @numbers.each_with_index { |number, index| abort "#{where}: number #{index} is #{number.inspect}" unless number == index }
    @words.each_key { |word| abort "#{where}: #{word}" unless @words[word].start_with?("value of #{word[1..]} ") }
  end
end

def in_child(model, bytes)
  pid = attempt { fork { alter(model, bytes) and exit!(0) } } or return
  _, status = Process.wait2(pid)
  abort "the child: #{status}" unless status.success?
end

def alter(model, bytes)
  model.grow(bytes)
  model.check("grown")
  attempt { GC.compact }
  model.check("compacted")
  model.shrink
  attempt { GC.start }
  model.check("shrunk")
end

def start_threads(count)
  threads = Array.new(count) { attempt { Thread.new { attempt { Array.new(100) { "in a thread #{_1}" }.size } } } }
  abort "a thread" unless threads.compact.all? { |thread| thread.join && [100, nil].include?(thread.value) }
end

bytes = Integer(ARGV[0]) * MIB
if ARGV[1]
  mappings = File.foreach("/proc/self/maps").count + Integer(ARGV[1])
  File.write("/proc/sys/vm/max_map_count", mappings.to_s)
end
model = Model.new
3.times do
  alter(model, bytes)
  # Ruby 3.4 itself waits for ever for a thread whose stack there was no memory for.
  start_threads(20) if $refusals["NoMemoryError"].zero?
  in_child(model, bytes / 4)
end
puts "right; refused: #{$refusals.empty? ? "nothing" : $refusals.map { |name, times| "#{name} #{times}" }.join(", ")}"
