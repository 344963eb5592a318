# frozen_string_literal: true

# A template language that is parsed into a tree and walked: tags, filters, loops, includes;
# templates are parsed anew now and then, and the result is one buffer.
#   interpreted_pages.rb [PAGES]
require "cgi/escape"
require "digest"
require "strscan"
require_relative "requests"

module Template
  Text = Struct.new(:text) do
    def render(_scope, out) = out << text
  end

  Output = Struct.new(:name, :filters) do
    def render(scope, out)
      out << filters.reduce(scope.find(name)) { |value, filter| FILTERS.fetch(filter).call(value) }.to_s
    end
  end

  Loop = Struct.new(:variable, :name, :body) do
    def render(scope, out)
      items = scope.find(name)
      items.each_with_index do |item, index|
        inner = Scope.new({ variable => item, "index" => index, "last" => index == items.size - 1 }, scope)
        body.each { |node| node.render(inner, out) }
      end
    end
  end

  Condition = Struct.new(:name, :body) do
    def render(scope, out) = scope.find(name) && body.each { |node| node.render(scope, out) }
  end

  FILTERS = {
    "escape" => ->(value) { CGI.escapeHTML(value.to_s) },
    "upcase" => ->(value) { value.to_s.upcase },
    "money" => ->(value) { format("%.2f", value) },
    "words" => ->(value) { value.to_s.split.first(12).join(" ") },
    "join" => ->(value) { value.join(", ") }
  }.freeze

  class Scope
    def initialize(own, outer = nil)
      @own = own
      @outer = outer
    end

    # "item.owner.name": the first word in this scope or those around it, then keys.
    def find(name)
      first, *rest = name.split(".")
      rest.reduce(look(first)) { |value, key| value[key] }
    end

    def look(name) = @own.fetch(name) { @outer&.look(name) }
  end

  class Parser
    def initialize(source)
      @scanner = StringScanner.new(source)
    end

    def parse(closing = nil)
      nodes = []
      until @scanner.eos?
        if @scanner.scan(/\{\{\s*([\w.]+)((?:\s*\|\s*\w+)*)\s*\}\}/)
          nodes << Output.new(@scanner[1], @scanner[2].scan(/\w+/))
        elsif @scanner.scan(/\{%\s*(\w+)\s*(.*?)\s*%\}/)
          return nodes if @scanner[1] == closing

          nodes << tag(@scanner[1], @scanner[2])
        else
          nodes << Text.new(@scanner.scan(/\{?[^{]*/))
        end
      end
      nodes
    end

    private

    def tag(name, rest)
      case name
      when "for" then Loop.new(*rest.split(" in "), parse("endfor"))
      when "if" then Condition.new(rest, parse("endif"))
      else raise ArgumentError, "unknown tag #{name}"
      end
    end
  end
end

SHOP = <<~TEMPLATE
  <html><head><title>{{ shop.name | escape }}</title></head><body>
  {% for group in groups %}<h2 id="g{{ index }}">{{ group.name | upcase | escape }}</h2><ul>
  {% for item in group.items %}<li class="item"><a href="/items/{{ item.id }}">{{ item.name | escape }}</a>
  <span>{{ item.price | money }}</span>{% if item.new %}<em>new</em>{% endif %}<p>{{ item.text | words | escape }}</p>
  <small>{{ item.tags | join }}, from {{ item.maker.name | escape }}, {{ item.maker.city }}</small></li>
  {% endfor %}</ul>{% endfor %}</body></html>
TEMPLATE

random = Random.new(6)
makers = Array.new(20) { |id| { "name" => "Maker & #{id}", "city" => "City #{id}" } }
groups = Array.new(25) do |group|
  items = Array.new(40) do |id|
    { "id" => id, "name" => "Item <#{group}-#{id}>", "price" => random.rand * 100, "new" => random.rand(3).zero?, "maker" => makers.sample(random:),
      "text" => "words about it " * (1 + random.rand(20)), "tags" => Array.new(3) { "t#{random.rand(40)}" } }
  end
  { "name" => "Group #{group}", "items" => items }
end
requests = Requests.new
digest = Digest::SHA256.new
parsed = nil
Integer(ARGV.fetch(0, "60")).times do |number|
  digest << requests.measure do
    parsed = Template::Parser.new(SHOP * 2).parse if (number % 5).zero?
    out = +""
    scope = Template::Scope.new("shop" => { "name" => "Shop #{number}" }, "groups" => groups.rotate(number))
    parsed.each { |node| node.render(scope, out) }
    out
  end
end
puts digest.hexdigest[0, 16]
