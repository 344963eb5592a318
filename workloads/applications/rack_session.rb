# frozen_string_literal: true

require "digest"
require "stringio"
require "uri"

# A browser in the same process: asks a Rack application, keeps its cookies, follows no
# redirects, and adds every answer to a checksum.
class RackSession
  # Differs from run to run: the token that a form, or a page for its scripts, carries against forgery, and the number that
  # Redmine puts into names of forms.
  TOKEN = /(name="(?:authenticity_token" value|csrf-token" content)=")[^"]*|(name="[\w-]*-)\h{8}(?=")/

  attr_reader :statuses

  def initialize(app)
    @app = app
    @cookies = {}
    @digest = Digest::SHA256.new
    @statuses = Hash.new(0)
  end

  def get(path, headers = {}) = ask("GET", path, "", headers)

  # Sends a form as a browser does.
  def post(path, fields)
    ask("POST", path, URI.encode_www_form(fields), "CONTENT_TYPE" => "application/x-www-form-urlencoded")
  end

  # The token of the form on a page.
  def token(page) = page[/name="authenticity_token" value="([^"]*)"/, 1]

  def checksum = @digest.hexdigest[0, 16]

  # How many answers of each status there were, and the checksum, for people.
  def answers = "#{statuses.sort.map { |status, times| "#{status}: #{times}" }.join(", ")}; #{checksum}"

  private

  def ask(verb, path, sent, headers)
    status, answered, body = @app.call(environment(verb, path, sent).merge(headers))
    keep_cookies(answered)
    text = read(body)
    @statuses[status] += 1
    @digest << "#{verb} #{path} #{status} " << text.gsub(TOKEN, '\1\2')
    text
  end

  def read(body)
    text = +""
    body.each { |part| text << part }
    text
  ensure
    body.close if body.respond_to?(:close)
  end

  def environment(verb, path, sent)
    name, query = path.split("?", 2)
    { "REQUEST_METHOD" => verb, "SCRIPT_NAME" => "", "PATH_INFO" => name, "QUERY_STRING" => query.to_s,
      "SERVER_NAME" => "127.0.0.1", "SERVER_PORT" => "80", "SERVER_PROTOCOL" => "HTTP/1.1", "HTTP_HOST" => "127.0.0.1",
      "HTTP_ACCEPT" => "*/*", "REMOTE_ADDR" => "127.0.0.1", "CONTENT_LENGTH" => sent.bytesize.to_s,
      "HTTP_COOKIE" => @cookies.map { |pair| pair.join("=") }.join("; "),
      "rack.url_scheme" => "http", "rack.input" => StringIO.new(sent.b), "rack.errors" => $stderr,
      "rack.multithread" => false, "rack.multiprocess" => false, "rack.run_once" => false, "rack.version" => [1, 6] }
  end

  def keep_cookies(headers)
    Array(headers["set-cookie"] || headers["Set-Cookie"]).flat_map { |line| line.split("\n") }.each do |line|
      name, value = line.split(";").first.split("=", 2)
      @cookies[name] = value
    end
  end
end
