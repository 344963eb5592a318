# frozen_string_literal: true

# Pages from ERB templates: each is one large buffer that is appended to, escaped text by
# escaped text, until it has one to two megabytes.
#   erb_pages.rb [PAGES]
require "digest"
require "erb"
require_relative "requests"

class Page
  include ERB::Util

  Row = Struct.new(:id, :name, :tags, :amount, :note)

  TABLE = <<~HTML
    <section><h2><%= h title %></h2><table>
    <% rows.each do |row| %>
    <tr id="r<%= row.id %>" class="<%= row.tags.join(" ") %>"><td><%= row.id %></td><td><%= h row.name %></td>
    <% row.tags.each do |tag| %><td><a href="/tags/<%= u tag %>"><%= h tag %></a></td><% end %>
    <td><%= format("%.2f", row.amount) %></td><td><%= h row.note %></td></tr>
    <% end %>
    </table></section>
  HTML
  LAYOUT = <<~HTML
    <!doctype html><html><head><title><%= h title %></title></head><body>
    <% sections.each do |name, rows| %><%= table(name, rows) %><% end %>
    <footer><%= sections.sum { |_, rows| rows.size } %> rows</footer></body></html>
  HTML
  ERB.new(TABLE, trim_mode: "-").def_method(self, "table(title, rows)")
  ERB.new(LAYOUT, trim_mode: "-").def_method(self, "layout(title, sections)")

  def self.rows(random)
    Array.new(1000) do |id|
      Row.new(id, "Name <#{id}> & others", Array.new(1 + random.rand(3)) { "tag #{random.rand(30)}" }, random.rand * 1000, "a \"note\" of some length " * (1 + random.rand(6)))
    end
  end
end

count = Integer(ARGV.fetch(0, "100"))
random = Random.new(5)
rows = Page.rows(random)
page = Page.new
requests = Requests.new
digest = Digest::SHA256.new
count.times do |number|
  digest << requests.measure { page.layout("Page #{number}", (1..(3 + number % 3)).to_h { |part| ["Part #{part}", rows.rotate(part * number)] }) }
end
puts digest.hexdigest[0, 16]
