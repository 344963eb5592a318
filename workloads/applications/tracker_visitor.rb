# frozen_string_literal: true

# Somebody who works with the tracker: reads tables, issues, boards, reports and wiki pages, searches, asks for JSON and CSV,
# and fills in forms.
class TrackerVisitor
  REQUESTS_A_ROUND = 140
  LISTS = %w[projects milestones sprints releases components time_entries changesets file_changes wiki_pages documents
             news_items topics messages users teams memberships customers contacts products invoices invoice_lines
             notifications attachments checklists custom_values dependencies activities].freeze
  WORDS = %w[memory request table wall quiet trace editor ticket sample window].freeze

  # With `reads_only` forms are asked for and not sent.
  def initialize(session, random, reads_only: false)
    @session = session
    @random = random
    @reads_only = reads_only
    @session.post("/session", email: "bo.berg.1@example.org", authenticity_token: @session.token(@session.get("/session/new")))
  end

  # The share of each kind, in percent, adds up to 100.
  def request
    case @random.rand(100)
    when 0...8 then @session.get("/")
    when 8...22 then @session.get("/issues?page=#{upto(100)}&sort=#{%w[id title due_on].sample(random: @random)}")
    when 22...40 then @session.get("/issues/#{upto(6000)}")
    when 40...52 then @session.get("/#{LISTS.sample(random: @random)}")
    when 52...58 then @session.get("/projects/#{upto(40)}")
    when 58...62 then @session.get("/projects/#{upto(40)}/board")
    when 62...65 then @session.get("/projects/#{upto(40)}/report")
    when 65...72 then @session.get("/wiki_pages/#{upto(400)}")
    when 72...76 then @session.get("/search?q=#{WORDS.sample(2, random: @random).join("+")}")
    when 76...84 then @session.get("/issues.json?status_id=#{upto(8)}&page=#{upto(10)}")
    when 84...87 then @session.get("/#{LISTS.sample(random: @random)}/#{upto(40)}.json")
    when 87...89 then @session.get("/time_entries.csv?user_id=#{upto(300)}")
    when 89...93 then @session.get("/#{%w[invoices users changesets topics].sample(random: @random)}/#{upto(300)}")
    when 93...96 then @session.get("/issues/#{upto(6000)}/edit")
    else comment
    end
  end

  def answers = @session.answers

  private

  def upto(count) = 1 + @random.rand(count)

  def comment
    page = @session.get("/comments/new")
    return if @reads_only

    @session.post("/comments", "comment[issue_id]" => upto(6000), "comment[user_id]" => upto(100),
                               "comment[body]" => "A **remark** on ##{upto(6000)}. " * 5, "comment[internal]" => 0,
                               authenticity_token: @session.token(page))
  end
end
