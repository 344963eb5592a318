# frozen_string_literal: true

# Parses one large XML document into a tree, asks the tree questions, writes it again.
#   document_parser.rb [MEGABYTES] [TIMES]
require "digest"
require "strscan"
require_relative "requests"

class Element
  attr_reader :name, :attributes, :children

  def initialize(name, attributes)
    @name = name
    @attributes = attributes
    @children = []
  end

  def each(&)
    yield self
    @children.each { |child| child.each(&) if child.is_a?(Element) }
  end

  def text = @children.map { |child| child.is_a?(Element) ? child.text : child }.join

  def write(out)
    out << "<" << @name
    @attributes.each { |name, value| out << " " << name << '="' << Xml.escaped(value) << '"' }
    return out << "/>" if @children.empty?

    out << ">"
    @children.each { |child| child.is_a?(Element) ? child.write(out) : out << Xml.escaped(child) }
    out << "</" << @name << ">"
  end
end

class Xml
  ENTITIES = { "amp" => "&", "lt" => "<", "gt" => ">", "quot" => '"' }.freeze
  ESCAPES = ENTITIES.to_h { |name, letter| [letter, "&#{name};"] }.freeze

  def self.escaped(text) = text.gsub(/[&<>"]/, ESCAPES)

  def self.parse(source) = new(source).document

  def initialize(source) = @scanner = StringScanner.new(source)

  def document
    @open = [Element.new("document", {})]
    step until @scanner.eos?
    raise ArgumentError, "#{@open.last.name} is never closed" if @open.size > 1

    @open.first
  end

  private

  def step
    if @scanner.skip(/<\//) then close(@scanner.scan(/[\w:.-]+/))
    elsif @scanner.skip(/<!--.*?-->/m) then nil
    elsif @scanner.skip(/</) then open_element
    else @open.last.children << plain(@scanner.scan(/[^<]+/))
    end
  end

  def open_element
    element = Element.new(@scanner.scan(/[\w:.-]+/), attributes)
    @open.last.children << element
    @open << element unless @scanner.skip(/\s*\/>/)
    @scanner.skip(/\s*>/)
  end

  def attributes
    found = {}
    found[@scanner[1]] = plain(@scanner[2]) while @scanner.scan(/\s+([\w:.-]+)="([^"]*)"/)
    found
  end

  def close(name)
    raise ArgumentError, "</#{name}> closes #{@open.last.name}" unless @open.pop.name == name

    @scanner.skip(/\s*>/)
  end

  def plain(text) = text.include?("&") ? text.gsub(/&(\w+);/) { ENTITIES.fetch($1) } : text
end

# A document of about `bytes` bytes: records with nested fields.
def source(bytes, random)
  out = +"<records>"
  number = 0
  while out.bytesize < bytes
    number += 1
    out << %(<record id="#{number}" kind="k#{random.rand(20)}"><!-- #{number} --><title>Title &lt;#{number}&gt; &amp; more</title>)
    random.rand(1..6).times { |field| out << %(<field name="f#{field}" unit="u#{random.rand(5)}">#{random.rand(100_000)}</field>) }
    out << "<body>#{"some words, " * random.rand(1..20)}<b>bold &quot;#{number}&quot;</b> and the end</body><empty/></record>\n"
  end
  out << "</records>"
end

text = source((Float(ARGV.fetch(0, "4")) * (1 << 20)).to_i, Random.new(10))
requests = Requests.new
digest = Digest::SHA256.new
Integer(ARGV.fetch(1, "4")).times do
  digest << requests.measure do
    document = Xml.parse(text)
    sums = Hash.new(0)
    document.each { |element| sums[element.attributes["unit"]] += element.text.to_i if element.name == "field" }
    "#{sums.sort.inspect} #{Digest::SHA256.hexdigest(document.write(+""))}"
  end
end
puts digest.hexdigest[0, 16]
