# frozen_string_literal: true

# A small web site in Rack's form without a framework: routes, middleware, ERB, JSON, search. With the libraries that it
# loads, 15 MB are alive.
%w[cgi/escape digest erb fileutils json logger net/http openssl optparse psych securerandom set tempfile time uri yaml].each { |name| require name }
require_relative "../ruby/numbers"

class Shop
  Article = Struct.new(:id, :name, :price_cents, :tags, :text)
  COUNT = 3500
  WORDS = %w[lamp chair table shelf mirror carpet curtain basket candle pillow blanket drawer].freeze
  LAYOUT = <<~HTML
    <!doctype html><html><head><title><%= CGI.escapeHTML(title) %></title></head>
    <body><nav><% %w[articles tags basket].each do |name| %><a href="/<%= name %>"><%= name %></a> <% end %></nav>
    <main><%= body %></main><footer><%= count %> articles</footer></body></html>
  HTML
  ARTICLE = <<~HTML
    <article id="a<%= article.id %>"><h2><%= CGI.escapeHTML(article.name) %></h2><p><%= format("%.2f", article.price_cents / 100.0) %></p>
    <ul><% article.tags.each do |tag| %><li><a href="/tags/<%= tag %>"><%= tag %></a></li><% end %></ul><p><%= CGI.escapeHTML(article.text) %></p></article>
  HTML
  ERB.new(LAYOUT).def_method(self, "layout(title, body, count)")
  ERB.new(ARTICLE).def_method(self, "fragment(article)")

  def initialize(random)
    @random = random
    @articles = Array.new(COUNT) { |id| article(id) }
    @by_tag = @articles.each_with_object(Hash.new { |hash, tag| hash[tag] = [] }) { |one, all| one.tags.each { |tag| all[tag] << one } }
    @by_word = @articles.each_with_object(Hash.new { |hash, word| hash[word] = [] }) { |one, all| one.name.downcase.scan(/[a-z]+/) { |word| all[word] << one.id } }
  end

  def call(environment)
    case environment["PATH_INFO"]
    when "/articles" then page("All", @articles.rotate(query(environment, "from").to_i).first(20))
    when %r{\A/tags/(\w+)\z} then page($1, @by_tag.fetch($1, []).first(20))
    when %r{\A/articles/(\d+)\.json\z} then json(@articles[$1.to_i % COUNT].to_h)
    when "/search.json" then json(search(query(environment, "q")).map(&:to_h))
    else [404, { "content-type" => "text/plain" }, ["nothing here\n"]]
    end
  end

  private

  def article(id)
    Article.new(id, "#{word.capitalize} & #{word} #{id}", 100 + @random.below(50_000), Array.new(1 + @random.below(3)) { "#{word}s" }.uniq,
                Array.new(150) { word }.join(" "))
  end

  def word = WORDS[@random.below(WORDS.size)]

  def query(environment, name) = URI.decode_www_form(environment["QUERY_STRING"]).to_h[name]

  def search(words) = words.split.map { |word| @by_word.fetch(word, []) }.reduce { |some, others| some & others }.first(30).map { |id| @articles[id] }

  def json(value) = [200, { "content-type" => "application/json" }, [JSON.generate(value)]]

  def page(title, articles)
    [200, { "content-type" => "text/html" }, [layout(title, articles.map { |article| fragment(article) }.join, COUNT)]]
  end
end

# Middleware: a line in a log for each request.
class RequestLog
  def initialize(application)
    @application = application
    @logger = Logger.new(File::NULL)
  end

  def call(environment)
    status, headers, body = @application.call(environment)
    @logger.info { "#{environment["REQUEST_METHOD"]} #{environment["PATH_INFO"]} #{status} #{body.sum(&:bytesize)}" }
    [status, headers.merge("x-log" => Time.at(0).utc.iso8601), body]
  end
end

# Somebody who asks the site; `random` says what for.
class ShopVisitor
  def initialize(site, random)
    @site = site
    @random = random
    @asked = 0
    @digest = Digest::SHA256.new
  end

  # What the site is asked next.
  def question
    path, query = case @asked % 5
                  when 0 then ["/articles", "from=#{@random.below(Shop::COUNT)}"]
                  when 1 then ["/tags/#{word}s", ""]
                  when 2, 3 then ["/articles/#{@random.below(Shop::COUNT)}.json", ""]
                  else ["/search.json", URI.encode_www_form(q: "#{word} #{word}")]
                  end
    @asked += 1
    { "REQUEST_METHOD" => "GET", "PATH_INFO" => path, "QUERY_STRING" => query }
  end

  def ask(question) = @site.call(question)

  def read(answer)
    status, _, body = answer
    body.each { |part| @digest << "#{status} " << part }
  end

  # Of all answers.
  def checksum = @digest.hexdigest[0, 16]

  private

  def word = Shop::WORDS[@random.below(12)]
end
