# frozen_string_literal: true

require_relative "fixed_clock"

# What a team has written in Redmine in 29 days: a project, its people, issues with remarks, wiki pages. The page of what
# happened lately shows all of it.
module Seeds
  ISSUES = 300
  REMARKS = 3
  PAGES = 30
  SECONDS = 29 * 86_400
  WORDS = %w[memory request table wall quiet trace editor ticket sample window queue letter report branch filter handle
             column answer record server].freeze

  module_function

  # `progress` is called with a name, how many are there, and how many are wanted.
  def run(progress:)
    @random = Random.new(20)
    FixedClock.now = FixedClock::TODAY - SECONDS
    # Markdown takes an extension that Debian compiled for its own Ruby. Textile is formatted in Ruby, and would be a third of the work.
    Setting.text_formatting = ""
    Setting.activity_days_default = 30
    Setting.notified_events = [] # no mail is written
    Setting.welcome_text = paragraph(40)
    people = Array.new(8) { |number| person(number) }
    project = make_project(people)
    ISSUES.times do |number|
      issue(project, people, number)
      progress.call("issues", number + 1, ISSUES)
    end
    PAGES.times { |number| wiki_page(project, people, number) }
    progress.call("wiki pages", PAGES, PAGES)
  end

  def person(number)
    user = User.new(firstname: %w[Ada Bo Cleo Dan Eve Finn Gro Hal][number], lastname: "Berg", mail: "person#{number}@example.org", language: "en")
    user.login = "person#{number}"
    user.password = user.password_confirmation = "a long password #{number}"
    user.save!
    user
  end

  def make_project(people)
    project = Project.new(name: "Bench", description: paragraph(60), is_public: true, enabled_module_names: %w[issue_tracking wiki news time_tracking calendar gantt])
    project.identifier = "bench"
    project.trackers = Tracker.order(:position).to_a
    project.save!
    role = Role.givable.order(:position).first
    people.each { |user| Member.create!(project:, principal: user, roles: [role]) }
    project
  end

  def issue(project, people, number)
    pass_time(SECONDS / (ISSUES * (REMARKS + 1)))
    author = pick(people)
    made = Issue.new(project:, author:, tracker: project.trackers[number % project.trackers.size], status: IssueStatus.sorted.first,
                     priority: pick(IssuePriority.active.to_a), subject: "#{sentence(5)} #{number}", description: text(number), assigned_to: pick(people))
    User.current = author
    made.save!
    REMARKS.times { |remark| remark(made.id, pick(people), remark) }
  end

  def remark(id, author, number)
    pass_time(SECONDS / (ISSUES * (REMARKS + 1)))
    User.current = author
    found = Issue.find(id)
    found.init_journal(author, paragraph(25))
    found.done_ratio = 20 * (number + 1)
    found.status = IssueStatus.sorted[number % 3] if @random.rand(2).zero?
    found.save!
  end

  def wiki_page(project, people, number)
    wiki = project.wiki || Wiki.create!(project:, start_page: "Wiki")
    page = WikiPage.new(wiki:, title: number.zero? ? "Wiki" : "Page#{number}")
    parts = Array.new(10) { "#{sentence(3)}\n\n#{paragraph(60)} See [[Page#{1 + @random.rand(PAGES - 1)}]] and ##{1 + @random.rand(ISSUES)}.\n\n#{list}" }
    page.content = WikiContent.new(page:, author: pick(people), text: "Page #{number}\n\n#{parts.join("\n\n")}")
    page.save!
  end

  def text(number) = "#{sentence(3)}\n\n#{paragraph(80)}\n\n#{list}\n\nSee ##{[number, 1].max}."

  def list = Array.new(4) { "* #{sentence(8)}" }.join("\n")

  def paragraph(words) = "#{sentence(words)}."

  def sentence(words) = Array.new(words) { word }.join(" ").capitalize

  def word = pick(WORDS)

  def pick(list) = list[@random.rand(list.size)]

  def pass_time(seconds) = FixedClock.now += seconds
end
