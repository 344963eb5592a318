require_relative "job"

# Reads what record.rb wrote.
class RecordReader
  # running: the test that had begun and not ended when the process ended.
  attr_reader :outcomes, :running, :finished

  def initialize(path)
    @outcomes = {}
    File.foreach(path, chomp: true, encoding: "BINARY") { |line| read(*line.split("\t", 3)) } if File.exist?(path)
  end

  private

  # A failure stands, whatever is recorded for the same test later (its teardown, say).
  def read(event, id, text)
    case event
    when "end" then @finished = true
    when "start" then @running = id
    else
      @running = nil if @running == id
      id = id.dup.force_encoding("UTF-8").scrub
      return if @outcomes[id]&.status == "failed"
      message = (text && !text.empty? ? text.undump : "").force_encoding("UTF-8").scrub
      @outcomes[id] = Outcome.new(id, event, message)
    end
  end
end
