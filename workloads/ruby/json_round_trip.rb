# frozen_string_literal: true

# Generates and parses JSON of an API-like answer, changing a little every time.
#   json_round_trip.rb [TIMES]
require_relative "figures"
require "json"

orders = (1..400).map do |n|
  {
    "id" => n, "state" => %w[open paid sent][n % 3], "total" => n * 1.25, "note" => n % 9 == 0 ? nil : "order \"#{n}\" – Größe M",
    "customer" => { "name" => "customer #{n % 50}", "mail" => "c#{n % 50}@example.org", "tags" => ["a", "b#{n % 4}"] },
    "lines" => (1..(n % 5 + 1)).map { |l| { "article" => "A-#{n * l}", "count" => l, "price" => l * 3.5 } },
  }
end
answer = { "page" => 0, "orders" => orders }

checksum = 0
Integer(ARGV[0] || 750).times do |turn|
  answer["page"] = turn
  text = JSON.generate(answer)
  answer = JSON.parse(text)
  named = JSON.parse(text, symbolize_names: true) if (turn % 8).zero?
  checksum = (checksum * 31 + text.bytesize + (named ? named[:orders].size : 0)) & 0xffff_ffff
end
puts "checksum #{checksum}"
