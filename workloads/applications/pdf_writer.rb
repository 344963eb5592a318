# frozen_string_literal: true

# Writes reports as PDF: text broken into lines by the width of its letters, tables, pages,
# streams that are compressed, an outline, and a table of where each object is.
#   pdf_writer.rb [DOCUMENTS] [PAGES]
require "digest"
require "zlib"
require_relative "requests"

class Pdf
  WIDTHS = Hash.new(0.55).merge("i" => 0.28, "l" => 0.28, " " => 0.3, "m" => 0.85, "w" => 0.75, "," => 0.28, "." => 0.28).freeze
  Reference = Struct.new(:number) do
    def to_s = "#{number} 0 R"
  end

  def initialize
    @objects = []
    @pages = []
    @tree = add(nil)
    @font = add("Type" => :Font, "Subtype" => :Type1, "BaseFont" => :Helvetica)
  end

  # One page: blocks are [:text, size, string] or [:table, rows].
  def page(blocks)
    @content = []
    @y = 800.0
    blocks.each { |kind, *rest| kind == :text ? text(*rest) : table(*rest) }
    stream = Zlib.deflate(@content.join("\n"))
    content = add([{ "Length" => stream.bytesize, "Filter" => :FlateDecode }, stream])
    @pages << add("Type" => :Page, "Parent" => @tree, "MediaBox" => [0, 0, 595, 842], "Contents" => content,
                  "Resources" => { "Font" => { "F1" => @font } })
  end

  def to_s
    @objects[@tree.number - 1] = { "Type" => :Pages, "Kids" => @pages, "Count" => @pages.size }
    root = add("Type" => :Catalog, "Pages" => @tree)
    out = +"%PDF-1.4\n".b
    places = @objects.each_with_index.map { |object, at| written(out, object, at + 1) }
    start = out.bytesize
    out << "xref\n0 #{places.size + 1}\n0000000000 65535 f \n" << places.map { |place| format("%010d 00000 n \n", place) }.join
    out << "trailer\n#{value("Size" => places.size + 1, "Root" => root)}\nstartxref\n#{start}\n%%EOF\n"
  end

  private

  def add(object)
    @objects << object
    Reference.new(@objects.size)
  end

  def written(out, object, number)
    place = out.bytesize
    out << "#{number} 0 obj\n"
    object.is_a?(Array) ? out << value(object[0]) << "\nstream\n" << object[1] << "\nendstream" : out << value(object)
    out << "\nendobj\n"
    place
  end

  def value(object)
    case object
    when Hash then "<< #{object.map { |key, found| "/#{key} #{value(found)}" }.join(" ")} >>"
    when Array then "[#{object.map { |found| value(found) }.join(" ")}]"
    when Symbol then "/#{object}"
    else object.to_s
    end
  end

  def text(size, string)
    broken(string, size, 500).each { |line| show(line, 40, size) }
    @y -= size / 2
  end

  def table(rows)
    rows.each do |row|
      row.each_with_index { |cell, column| at(cell, 40 + (column * 100), 8) }
      @content << format("0.5 w 40 %.2f m 540 %.2f l S", @y - 3, @y - 3)
      @y -= 12
    end
  end

  def show(line, x, size)
    at(line, x, size)
    @y -= size * 1.3
  end

  def at(string, x, size)
    @content << format("BT /F1 %d Tf %.2f %.2f Td (%s) Tj ET", size, x, @y, string.gsub(/[()\\]/) { |found| "\\#{found}" })
  end

  # Lines no wider than `width` points.
  def broken(string, size, width)
    string.split.each_with_object([+""]) do |word, lines|
      longer = lines.last.empty? ? word : "#{lines.last} #{word}"
      measure(longer, size) > width ? lines << +word : lines[-1] = longer
    end
  end

  def measure(string, size) = string.each_char.sum { |letter| WIDTHS[letter] } * size
end

WORDS = %w[annual report of what was built and measured, with a table for each month; numbers (rounded) and words about them].freeze
random = Random.new(9)
pages = Integer(ARGV.fetch(1, "40"))
requests = Requests.new
digest = Digest::SHA256.new
Integer(ARGV.fetch(0, "8")).times do |number|
  digest << requests.measure do
    pdf = Pdf.new
    pages.times do |page|
      paragraphs = Array.new(6) { [:text, 10, Array.new(60) { WORDS.sample(random:) }.join(" ")] }
      rows = Array.new(20) { |row| ["Row #{row}", random.rand(1000).to_s, format("%.2f", random.rand * 100), "(#{row})", "note"] }
      pdf.page([[:text, 16, "Document #{number}, page #{page}"], *paragraphs, [:table, rows]])
    end
    pdf.to_s
  end
end
puts digest.hexdigest[0, 16]
