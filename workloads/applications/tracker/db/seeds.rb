# frozen_string_literal: true

# Fills the tracker's database, always with the same records.
module Seeds
  COUNTS = {
    organization: 12,
    team: 40,
    role: 8,
    user: 300,
    project: 40,
    membership: 900,
    category: 160,
    component: 240,
    milestone: 240,
    sprint: 320,
    release: 200,
    issue_type: 6,
    priority: 5,
    status: 8,
    issue: 6000,
    comment: 15000,
    reaction: 9000,
    label: 320,
    labelling: 9000,
    watcher: 9000,
    dependency: 3000,
    attachment: 4000,
    time_entry: 9000,
    checklist: 2000,
    checklist_item: 8000,
    custom_field: 24,
    custom_value: 9000,
    activity: 12000,
    changeset: 4000,
    file_change: 12000,
    wiki_page: 400,
    wiki_revision: 1200,
    forum: 120,
    topic: 1200,
    message: 6000,
    news_item: 400,
    document: 600,
    saved_query: 400,
    notification: 6000,
    customer: 300,
    contact: 900,
    product: 300,
    invoice: 1500,
    invoice_line: 7500,
    setting: 60,
  }.freeze

  WORDS = %w[adapter answer barrier board branch buffer build cache careful change clear client code column commit
             copy cost deadline detail draft early editor empty error event export field file first form gate grid
             handle header history image import index invoice job label layer letter limit link list load local lock
             map measure memory menu merge message metric mirror model month name note number offer open order page
             parser part path pause plan point print queue quick quiet record report request reset result review
             route rule sample scale screen search sender server shape sheet slow source stage start state stone
             store stream table tag task test text thread ticket timer token total trace tree type update user value
             view wall warning week width window word worker].freeze
  FIRST = %w[Ada Bo Cleo Dan Eva Finn Gina Hal Ines Jon Kim Leo Mia Noor Olaf Pia Quin Rosa Sam Tove Uma Vic Wim Xara Yan Zoe].freeze
  LAST = %w[Abel Berg Cole Dahl Eden Frost Grant Holm Irwin Jonas Kern Lund Mohr Nash Ohara Park Quist Reed Stone Thorn Upton Vance West Young].freeze
  CODE = <<~TEXT
    ```ruby
    def total(lines)
      lines.sum { |line| line.quantity * line.price }.round(2)
    end
    ```
  TEXT
  BATCH = 500

  def self.run(progress: nil)
    random = Random.new(20_260_115)
    COUNTS.each_with_index do |(name, count), index|
      model = name.to_s.camelize.constantize
      (1..count).each_slice(BATCH) do |numbers|
        model.insert_all!(numbers.map { |number| row(model, number, random) })
      end
      progress&.call(name, index + 1, COUNTS.size)
    end
  end

  def self.row(model, number, random)
    model.columns.reject { |column| column.name == "id" }.to_h do |column|
      [column.name, value(model, column, number, random)]
    end
  end

  def self.value(model, column, number, random)
    case column.name
    when /_id\z/ then 1 + random.rand(COUNTS.fetch(column.name.delete_suffix("_id").to_sym))
    when "created_at", "updated_at" then Time.utc(2025, 1, 1) + (number * 60)
    when "email" then "#{FIRST[number % FIRST.size]}.#{LAST[number % LAST.size]}.#{number}@example.org".downcase
    when "colour" then format("#%06x", random.rand(1 << 24))
    when "position", "number" then number % 40
    when "phone" then format("+46 %08d", random.rand(10**8))
    else plain(model, column, number, random)
    end
  end

  def self.plain(model, column, number, random)
    return random.rand(model.defined_enums[column.name].size) if model.defined_enums.key?(column.name)

    case column.type
    when :boolean then random.rand(4).zero?
    when :integer then random.rand(500)
    when :decimal then random.rand(4000) / 100.0
    when :date then Date.new(2025, 1, 1) + random.rand(365)
    when :text then text(random)
    else line(model, column, number, random)
    end
  end

  def self.line(model, column, number, random)
    return "#{FIRST.sample(random:)} #{LAST.sample(random:)}" if column.name == "name" && %w[User Contact].include?(model.name)

    "#{words(random, 2 + random.rand(4)).capitalize} #{number}"
  end

  # One to five paragraphs of Markdown, sometimes with a list, code, or an issue's number.
  def self.text(random)
    Array.new(1 + random.rand(5)) do
      case random.rand(10)
      when 0 then Array.new(3) { "- #{words(random, 6)}" }.join("\n")
      when 1 then CODE
      when 2 then "See ##{1 + random.rand(COUNTS[:issue])}: **#{words(random, 3)}**, `#{words(random, 1)}`."
      else "#{words(random, 12 + random.rand(30)).capitalize}."
      end
    end.join("\n\n")
  end

  def self.words(random, count) = Array.new(count) { WORDS.sample(random:) }.join(" ")
end
