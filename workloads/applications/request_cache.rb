# frozen_string_literal: true

# Requests without a framework: each makes some megabytes of small objects and strings, holds
# most of them to its end, answers, and leaves everything; beside them lives a cache of which
# a request replaces a little.
#   request_cache.rb [REQUESTS] [ENTRIES]
require "digest"
require_relative "requests"

class Cache
  def initialize(size, random)
    @entries = Array.new(size) { |key| entry(key, random) }
  end

  def [](key) = @entries[key % @entries.size]

  def renew(key, random) = @entries[key % @entries.size] = entry(key, random)

  private

  def entry(key, random)
    { key: key, name: "entry #{key}", rows: Array.new(12) { |row| { id: row, text: "row #{row} of #{key}", price: random.rand(10_000) } } }
  end
end

# What a request builds: rows read from the cache as objects, linked, sorted, grouped, printed.
class Answer
  Line = Struct.new(:id, :text, :price, :owner, :tags)

  def initialize(cache, random)
    @cache = cache
    @random = random
  end

  def call
    lines = Array.new(300) { @cache[@random.rand(1 << 30)] }.flat_map { |found| lines(found) }
    groups = lines.group_by { |line| line.tags.first }
    groups.each_value { |group| group.sort_by!(&:price) }
    5.times { @cache.renew(@random.rand(1 << 30), @random) }
    print(groups)
  end

  private

  def lines(found)
    found[:rows].map { |row| Line.new(row[:id], row[:text].upcase, row[:price], found, ["t#{row[:price] % 17}", "u#{row[:id]}", +"#{found[:name]}/#{row[:id]}"]) }
  end

  def print(groups)
    groups.sort.map do |name, group|
      head = { "name" => name, "count" => group.size, "sum" => group.sum(&:price) }
      [head.map { |key, value| "#{key}=#{value}" }.join(";"), *group.map { |line| "#{line.id}|#{line.text}|#{line.price}|#{line.tags.join(",")}" }].join("\n")
    end.join("\n\n")
  end
end

count = Integer(ARGV.fetch(0, "280"))
random = Random.new(3)
answer = Answer.new(Cache.new(Integer(ARGV.fetch(1, "12000")), random), random)
requests = Requests.new
digest = Digest::SHA256.new
count.times { digest << requests.measure { answer.call } }
puts digest.hexdigest[0, 16]
