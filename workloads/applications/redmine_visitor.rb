# frozen_string_literal: true

# Somebody who reads in Redmine without an account: three times in a round a table of a hundred issues, all issues as CSV,
# what happened lately, a hundred issues as JSON, four wiki pages, the projects, and six issues with their remarks.
class RedmineVisitor
  REQUESTS_A_ROUND = 45
  COLUMNS = %w[tracker status priority subject assigned_to updated_on].map { |name| "&c[]=#{name}" }.join
  SORTS = %w[id:desc priority:desc updated_on:desc subject].freeze

  # It only reads, whatever is asked for.
  def initialize(session, random, **)
    @session = session
    @random = random
    @requests = 0
  end

  def request
    path = path_of(@requests % 15)
    @requests += 1
    @session.get(path)
  end

  def answers = @session.answers

  private

  def path_of(step)
    case step
    when 0 then "/projects/bench/issues?set_filter=1&per_page=100&sort=#{SORTS.sample(random: @random)}&f[]=#{COLUMNS}"
    when 1 then "/issues.csv"
    when 2 then "/projects/bench/activity"
    when 3 then "/issues.json?limit=100&offset=#{100 * @random.rand(2)}"
    when 4..7 then "/projects/bench/wiki/Page#{1 + @random.rand(29)}"
    when 8 then "/projects"
    else "/issues/#{1 + @random.rand(300)}"
    end
  end
end
