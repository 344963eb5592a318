# frozen_string_literal: true

# The Rails applications that are driven: the project's own tracker, and Redmine, which other people wrote.
module RailsApplication
  VISITORS = { "tracker" => "TrackerVisitor", "redmine" => "RedmineVisitor" }.freeze

  # Loads the application of that name, all of its code included.
  def self.start(name)
    VISITORS.key?(name) or abort "there is no application #{name.inspect}; give #{VISITORS.keys.join(" or ")}"
    require_relative "#{name}_start"
    require_relative "#{name}_visitor"
    @visitor = Object.const_get(VISITORS.fetch(name))
  end

  # Somebody whose requests depend on the seed alone, logged in where the application wants that. Several at once have
  # answers that can be compared when they only read.
  def self.visitor(seed, reads_only: false)
    require_relative "rack_session"
    @visitor.new(RackSession.new(Rails.application), Random.new(seed), reads_only:)
  end

  # What the visitor says, or REQUESTS_A_ROUND in the environment.
  def self.requests_a_round = Integer(ENV.fetch("REQUESTS_A_ROUND", @visitor::REQUESTS_A_ROUND))
end
