# frozen_string_literal: true

# Full collections over a heap that does not change: Ruby's own library as loaded code, and
# rows of small objects. The price of one is the difference between two runs.
#   full_collections.rb [COLLECTIONS] [ROWS]
require_relative "figures"

%w[rdoc optparse net/http json yaml erb csv set uri time tempfile fileutils logger open3 psych rubygems/package]
  .each do |library|
    require library
  rescue LoadError
    nil # a bundled gem that this Ruby was installed without
  end

collections = Integer(ARGV[0] || 40)
rows = Integer(ARGV[1] || 30_000)
table = (1..rows).map { |n| { "id" => n, "name" => "row #{n}", "tags" => ["a#{n % 7}", n.to_f / 3] } }

collections.times { GC.start }
puts "rows #{table.sum { |row| row["id"] + row["tags"].size }}"
