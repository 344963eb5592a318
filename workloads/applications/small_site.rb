# frozen_string_literal: true

# The small web site of shop.rb in process. Hardly anything becomes old, so that a generational collector has no reason for a
# major collection. RSS is noted after every tenth request.
#   small_site.rb [REQUESTS]
require_relative "shop"
require_relative "memory_samples"
require_relative "requests"

random = Numbers.new(11)
visitor = ShopVisitor.new(RequestLog.new(Shop.new(random)), random)
requests = Requests.new
samples = MemorySamples.new
Integer(ARGV.fetch(0, "20000")).times do |number|
  question = visitor.question
  visitor.read(requests.measure { visitor.ask(question) })
  samples.note(rss_mib: MemorySamples.resident_mib) if (number % 10).zero?
end
Figures.tell(settled_mib: samples.settled(:rss_mib), highest_mib: samples.highest(:rss_mib))
puts visitor.checksum
