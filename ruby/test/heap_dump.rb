# Reads what GC.config(dump:) writes, as docs/reference/heap-dump.md describes it: by hand, so that the
# tests do not believe the program that reads dumps.
class HeapDump
  Cell = Struct.new(:address, :kind, :width, :age, :flags, :class_address, :payload_bytes, :name, :references)

  attr_reader :cells, :roots, :blocks, :totals, :ruby_version, :pid

  def initialize(bytes)
    @bytes = bytes
    @at = 0
    @cells = {}
    @roots = Hash.new { |roots, category| roots[category] = [] }
    @blocks = Hash.new(0)
    raise "no dump" unless take(17) == "ashlar-heap-dump\n" && number == 1
    @ruby_version = text
    @pid = number
    number # seconds
    @base = number
    @block_bytes = number
    @kinds = Array.new(number) { [number, text] }.to_h
    @position = @base
    nil while record
    raise "#{@bytes.bytesize - @at} bytes too many" unless @at == @bytes.bytesize
  end

  private

  def take(count)
    @at += count
    raise "too short" if @at > @bytes.bytesize
    @bytes.byteslice(@at - count, count)
  end

  def byte = take(1).ord

  def number
    result = shift = 0
    loop do
      value = byte
      result |= (value & 127) << shift
      return result if value < 128
      shift += 7
    end
  end

  def signed = number.then { _1.odd? ? -(_1 + 1) / 2 : _1 / 2 }
  def text = take(number).force_encoding("UTF-8")
  def address = number.then { _1.zero? ? 0 : @base + (_1 - 1) * 8 }

  def record
    case byte.chr
    when "R"
      category = text
      while (root = address).positive? do @roots[category] << root end
    when "C" then cells_of_block(number)
    when "P" then number; number; pass("payloads", 1)
    when "S" then pass("span", number); number
    when "E" then pass("empty", number); number
    when "T"
      @totals = { cells: number, references: number, elsewhere_bytes: number }
      return false
    else raise "byte #{@at - 1} begins no record"
    end
    true
  end

  def pass(use, count)
    @blocks[use] += count
    @position += count * @block_bytes
  end

  def cells_of_block(width)
    place = @position - width
    while (step = number).positive?
      place += step * width
      cell(place, width)
    end
    pass("cells", 1)
  end

  def cell(place, width)
    kind = @kinds.fetch(number)
    flags = byte
    cell = Cell.new(place, kind, width, flags & 3, flags, address, number)
    cell.name = text if flags & 32 != 0
    cell.references = []
    while (distance = signed) != 0 do cell.references << place + distance * 8 end
    @cells[place] = cell
  end
end
