# frozen_string_literal: true

# Serves a Rack application with the first of these servers whose gem is there, eight threads
# or as many as there are connections, until TERM.
def serve(application, port, servers)
  found = servers.find do |name|
    require name
    true
  rescue LoadError
    false
  end
  abort "none of #{servers.join(", ")} is among the gems of this Ruby" unless found
  quiet = found == "puma" ? { Silent: true, Threads: "8:8" } : { Logger: WEBrick::Log.new(File::NULL), AccessLog: [] }
  trap("TERM") { exit }
  Rackup::Handler.get(found).run(GcInRequests.new(application), Host: "127.0.0.1", Port: port, **quiet)
end
