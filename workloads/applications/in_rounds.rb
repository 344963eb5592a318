# frozen_string_literal: true

# A Rails application, driven in process until its memory has settled. RSS is noted after every request.
#   in_rounds.rb tracker|redmine [ROUNDS]     measured rounds after one that warms up
# Tells, beside what requests.rb tells:
# settled_mib   mean RSS over the second half of the requests
# highest_mib   the highest RSS after a request
require_relative "requests"
require_relative "memory_samples"
require_relative "rails_application"

RailsApplication.start(ARGV.fetch(0))
rounds = Integer(ARGV.fetch(1, "20"))
visitor = RailsApplication.visitor(7)
requests = Requests.new
samples = MemorySamples.new
RailsApplication.requests_a_round.times { visitor.request }
(rounds * RailsApplication.requests_a_round).times do
  requests.measure { visitor.request }
  samples.note(rss_mib: MemorySamples.resident_mib)
end
Figures.tell(settled_mib: samples.settled(:rss_mib), highest_mib: samples.highest(:rss_mib))
puts visitor.answers
