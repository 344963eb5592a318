# A small template language: parsed into nodes, then rendered many times with other data.
#   templates.rb [PAGES]
class Text
  def initialize(text)
    @text = text
  end

  def render(out, _scope)
    out << @text
  end
end

class Value
  def initialize(path, filters)
    @path = path.split(".")
    @filters = filters
  end

  def render(out, scope)
    value = @path.inject(scope) { |from, name| from[name] }
    @filters.each { |filter| value = filter == "upcase" ? value.to_s.upcase : value.to_s.capitalize }
    out << value.to_s
  end
end

class Loop
  attr_reader :body

  def initialize(name, over)
    @name = name
    @over = over
    @body = []
  end

  def render(out, scope)
    scope[@over].each do |item|
      inner = scope.merge({ @name => item })
      @body.each { |node| node.render(out, inner) }
    end
  end
end

def parse(source)
  root = Loop.new(nil, nil)
  open = [root]
  until source.empty?
    start = source.index("{")
    unless start
      open.last.body << Text.new(source)
      break
    end
    open.last.body << Text.new(source[0, start]) if start > 0
    finish = source.index("}", start)
    words = source[start + 1, finish - start - 1].split(" ")
    source = source[finish + 1, source.size]
    case words[0]
    when "each"
      inner = Loop.new(words[1], words[3])
      open.last.body << inner
      open << inner
    when "end" then open.pop
    else open.last.body << Value.new(words[0], words[1, words.size])
    end
  end
  root.body
end

SOURCE = "<h1>{title upcase}</h1>\n<ul>\n{each row in rows}<li class=\"{row.kind}\">{row.name capitalize}: " \
         "{row.count} of {total}</li>\n{end}</ul>\n"

pages = (ARGV[0] || 2500).to_i
bytes = 0
pages.times do |page|
  nodes = parse(SOURCE) if page % 10 == 0 || !nodes
  rows = Array.new(30) { |row| { "kind" => row % 2 == 0 ? "even" : "odd", "name" => "row #{row}", "count" => row * page } }
  out = ""
  scope = { "title" => "page #{page}", "rows" => rows, "total" => page * 30 }
  nodes.each { |node| node.render(out, scope) }
  bytes += out.size
end
puts bytes
