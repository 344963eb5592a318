# frozen_string_literal: true

# A web application in Rack's form (`call` takes a hash, gives status, headers and body)
# behind a small threaded HTTP/1.1 server on loopback: middleware, routes, a page made of
# fragments, JSON, a cache that lives as long as the server. TERM ends it.
#   server.rb PORT
require_relative "figures"
require "cgi/escape"
require "json"
require "socket"

class Catalogue
  def initialize
    @articles = (1..3000).map do |id|
      { id: id, title: "Article <#{id}>", price: id * 1.37 % 90, tags: ["t#{id % 12}", "k#{id % 7}"], text: "words of article #{id} " * (3 + id % 9) }
    end
    @cache = {}
  end

  def call(env)
    case env["PATH_INFO"]
    when "/" then page(0)
    when %r{\A/page/(\d+)\z} then page($1.to_i)
    when %r{\A/articles/(\d+)\.json\z} then json(@articles[$1.to_i % @articles.size])
    when "/search.json" then json(@articles.select { |article| article[:tags].include?("t3") }.first(40))
    else [404, { "content-type" => "text/plain" }, ["nothing here\n"]]
    end
  end

  private

  def json(value) = [200, { "content-type" => "application/json" }, [JSON.generate(value)]]

  def page(number)
    shown = @articles.rotate(number * 20).first(20)
    body = shown.map { |article| fragment(article) }
    [200, { "content-type" => "text/html" }, ["<!doctype html><main>", *body, "</main>\n"]]
  end

  # A tenth of the fragments is made anew, as if the articles had changed.
  def fragment(article)
    @cache.delete(article[:id]) if rand(10).zero?
    @cache[article[:id]] ||= <<~HTML
      <article id="a#{article[:id]}"><h2>#{CGI.escapeHTML(article[:title])}</h2>
      <p class="#{article[:tags].join(" ")}">#{format("%.2f", article[:price])}</p><p>#{article[:text]}</p></article>
    HTML
  end
end

# Middleware: notes of the last requests, and headers on every answer.
class Log
  def initialize(app)
    @app = app
    @lines = []
    @lock = Mutex.new
  end

  def call(env)
    started = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    status, headers, body = @app.call(env)
    line = "#{env["REQUEST_METHOD"]} #{env["PATH_INFO"]} #{status} #{Process.clock_gettime(Process::CLOCK_MONOTONIC) - started}"
    @lock.synchronize { @lines.size < 5000 ? @lines << line : @lines.shift(1000) }
    [status, headers.merge("x-request" => "#{line.size}"), body]
  end
end

class Length
  def initialize(app) = @app = app

  def call(env)
    status, headers, body = @app.call(env)
    [status, headers.merge("content-length" => body.sum(&:bytesize).to_s), body]
  end
end

class Server
  REASONS = { 200 => "OK", 404 => "Not Found" }.freeze

  def initialize(app, port)
    @app = app
    @listener = TCPServer.new("127.0.0.1", port)
  end

  def run
    loop do
      client = @listener.accept
      client.setsockopt(Socket::IPPROTO_TCP, Socket::TCP_NODELAY, 1)
      Thread.new { serve(client) }
    end
  end

  private

  def serve(client)
    while (env = request(client))
      status, headers, body = @app.call(env)
      head = +"HTTP/1.1 #{status} #{REASONS.fetch(status)}\r\n"
      headers.each { |name, value| head << name << ": " << value << "\r\n" }
      client.write(head << "\r\n" << body.join)
      break if env["HTTP_CONNECTION"] == "close"
    end
  rescue Errno::ECONNRESET, Errno::EPIPE, IOError
    nil # the client has gone
  ensure
    client.close
  end

  def request(client)
    verb, path, = client.gets("\r\n", chomp: true)&.split
    return unless path

    env = { "REQUEST_METHOD" => verb, "PATH_INFO" => path, "SERVER_NAME" => "127.0.0.1" }
    while (line = client.gets("\r\n", chomp: true)) && !line.empty?
      name, value = line.split(": ", 2)
      env["HTTP_#{name.upcase.tr("-", "_")}"] = value
    end
    env
  end
end

trap("TERM") { exit }
srand(1)
Server.new(Log.new(Length.new(Catalogue.new)), Integer(ARGV.fetch(0))).run
