# The record that a test process writes beside its log: one line per event, written at
# once, so that it is complete up to the moment of a crash.
#   start|passed|failed|skipped|excluded TAB test TAB message.dump     and at the end: end
class Record
  def self.open
    path = ENV.delete("ASHLAR_TEST_RECORD")
    new(File.open(path, "a"))
  end

  def initialize(file)
    @file = file
    @file.sync = true
    @process = Process.pid
  end

  def write(event, id = "", message = "")
    return unless Process.pid == @process # a forked child that runs on is no test
    text = message.to_s.dup.force_encoding("BINARY").dump
    @file.write("#{event}\t#{id.to_s.gsub(/[\t\n]/, " ")}\t#{text}\n")
  end
end
