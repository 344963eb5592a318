# frozen_string_literal: true

# What a forked worker does not share: a parent loads much code and forks; the child answers
# requests, and says how much memory is its own then.
#   forked_worker.rb [requests] [warmup]
# `warmup` has the parent call Process.warmup before it forks.
require "json"
require "erb"
require "rbconfig"
require "rdoc"
require "prism"
require "net/http"
require "openssl"
require "psych"
require "optparse"

REQUESTS = Integer(ARGV.fetch(0, 1_000))
library = RbConfig::CONFIG.fetch("rubylibdir")
%w[rdoc prism reline net openssl psych optparse].each do |folder|
  files = Dir.glob("#{folder}/**/*.rb", base: library)
  files.grep_v(%r{servlet|task|rubygems_hook|template|prism/translation}).sort.each do |file|
    require File.join(library, file)
  rescue LoadError, NameError
    next # wants a library that is not there, or another file first
  end
end

ROUTES = Array.new(500) { |i| ["/pages/#{i}", { title: "Page #{i}", tags: %w[a b c].map { |tag| "#{tag}#{i}" } }] }.to_h.freeze
PAGE = ERB.new(<<~HTML)
  <h1><%= page[:title] %></h1>
  <table><% rows.each do |row| %><tr><% row.each do |name, value| %><td><%= name %>: <%= value %></td><% end %></tr><% end %></table>
HTML

def respond(number)
  page = ROUTES.fetch("/pages/#{number % ROUTES.size}")
  rows = Array.new(60) { |i| { id: i, name: "row #{i} of #{page[:title]}", tags: page[:tags].join(", ") } }
  [PAGE.result_with_hash(page:, rows:), JSON.parse(JSON.generate(rows)).size]
end

def own_kib(name) = File.read("/proc/self/smaps_rollup")[/^#{name}:\s+(\d+)/, 1].to_i

respond(0)
Process.warmup if ARGV[1] == "warmup"
reader, writer = IO.pipe
pid = fork do
  at_once = own_kib("Private_Dirty")
  sum = Array.new(REQUESTS) { |number| html, rows = respond(number); html.bytesize + rows }.sum
  writer.puts JSON.generate(sum:, at_once:, private_dirty_kib: own_kib("Private_Dirty"), rss_kib: own_kib("Rss"),
                            pss_kib: own_kib("Pss"), collections: GC.count)
end
writer.close
told = JSON.parse(reader.read)
Process.wait(pid)
puts "sum #{told.delete("sum")}"
puts told.map { |name, value| "#{name} #{value}" }
