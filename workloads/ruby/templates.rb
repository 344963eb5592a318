# frozen_string_literal: true

# Two template engines over the same data: ERB as Ruby ships it, and a small interpreter
# of {{ expressions }} and {% tags %}, parsed into nodes and rendered with filters.
#   templates.rb [PAGES]
require_relative "figures"
require "cgi/escape"
require "erb"

# Nodes of the interpreter; each renders itself into `out` from the variables in `scope`.
module Template
  Text = Struct.new(:text) do
    def render(out, _scope) = out << text
  end

  Output = Struct.new(:path, :filters) do
    def render(out, scope)
      value = Template.lookup(scope, path)
      filters.each { |name, argument| value = FILTERS.fetch(name).call(value, argument) }
      out << value.to_s
    end
  end

  Loop = Struct.new(:name, :path, :body) do
    def render(out, scope)
      rows = Template.lookup(scope, path)
      rows.each_with_index do |row, index|
        inner = scope.merge(name => row, "index" => index + 1, "last" => index + 1 == rows.size)
        body.each { |node| node.render(out, inner) }
      end
    end
  end

  Choice = Struct.new(:path, :body, :otherwise) do
    def render(out, scope)
      (Template.lookup(scope, path) ? body : otherwise).each { |node| node.render(out, scope) }
    end
  end

  FILTERS = {
    "upcase" => ->(value, _) { value.to_s.upcase },
    "escape" => ->(value, _) { CGI.escapeHTML(value.to_s) },
    "money" => ->(value, _) { format("%.2f", value) },
    "truncate" => ->(value, size) { value.size > size.to_i ? "#{value[0, size.to_i]}…" : value },
    "join" => ->(value, with) { value.join(with) },
  }.freeze

  def self.lookup(scope, path)
    path.inject(scope) { |value, key| value.is_a?(Hash) ? value[key] : value&.public_send(key) }
  end

  def self.parse(source)
    nodes(source.split(/({{.*?}}|{%.*?%})/m).each)
  end

  # Nodes up to the tag that ends this part; the tag is left in `stopped_at`.
  def self.nodes(tokens, stopped_at = [])
    found = []
    loop do
      token = tokens.next
      if token.start_with?("{{")
        found << output(token)
      elsif token.start_with?("{%")
        words = token[2..-3].split
        return found.tap { stopped_at << words.first } if %w[end else].include?(words.first)

        found << tag(words, tokens)
      elsif !token.empty?
        found << Text.new(token)
      end
    end
    found
  end

  def self.output(token)
    path, *filters = token[2..-3].split("|").map(&:strip)
    Output.new(path.split("."), filters.map { |filter| filter.split(":", 2).map(&:strip) })
  end

  def self.tag(words, tokens)
    case words
    in ["for", name, "in", path] then Loop.new(name, path.split("."), nodes(tokens))
    in ["if", path]
      stopped_at = []
      body = nodes(tokens, stopped_at)
      Choice.new(path.split("."), body, stopped_at == ["else"] ? nodes(tokens) : [])
    end
  end
end

SOURCE = <<~PAGE
  <h1>{{ shop.name | upcase | escape }}</h1>
  {% for product in products %}<article id="p{{ product.id }}" class="{% if last %}last{% else %}row{% end %}">
    <h2>{{ index }}. {{ product.title | truncate:18 | escape }}</h2>
    <p>{{ product.price | money }} – {{ product.tags | join:, }}</p>
    {% if product.offers %}<ul>{% for offer in product.offers %}<li>{{ offer.text | escape }}: {{ offer.cut }} %</li>{% end %}</ul>{% end %}
  </article>
  {% end %}
PAGE

ERB_SOURCE = <<~PAGE
  <h1><%= CGI.escapeHTML(shop["name"].upcase) %></h1>
  <% products.each_with_index do |product, at| %><article id="p<%= product["id"] %>" class="<%= at + 1 == products.size ? "last" : "row" %>">
    <h2><%= at + 1 %>. <%= CGI.escapeHTML(product["title"][0, 18]) %></h2>
    <p><%= format("%.2f", product["price"]) %> – <%= product["tags"].join(",") %></p>
    <% if product["offers"] %><ul><% product["offers"].each do |offer| %><li><%= CGI.escapeHTML(offer["text"]) %>: <%= offer["cut"] %> %</li><% end %></ul><% end %>
  </article>
  <% end %>
PAGE

# Compiled once to a method, as web frameworks do.
module Pages
  ERB.new(ERB_SOURCE).def_method(singleton_class, "listing(shop, products)")
end

shop = { "name" => "Stone & Sons" }
products = (1..60).map do |n|
  { "id" => n, "title" => "Product <#{n}> of a long name", "price" => n * 1.19, "tags" => ["tag#{n % 5}", "kind#{n % 3}"],
    "offers" => n % 3 == 0 ? [{ "text" => "\"two\" for one", "cut" => n % 50 }, { "text" => "today", "cut" => 5 }] : nil }
end

checksum = 0
Integer(ARGV[0] || 1800).times do |page|
  template = Template.parse(SOURCE) if (page % 10).zero? || !template
  scope = { "shop" => shop, "products" => products }
  own = +""
  template.each { |node| node.render(own, scope) }
  made = Pages.listing(shop, products)
  checksum = (checksum * 31 + own.bytesize * 7 + made.bytesize) & 0xffff_ffff
end
puts "checksum #{checksum}"
