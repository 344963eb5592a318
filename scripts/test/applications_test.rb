# frozen_string_literal: true

# Claims about workloads/applications and about what `make bench-applications APP=` takes.

WORKLOADS = File.expand_path("../../workloads/applications", __dir__)
APPLICATION = File.expand_path("../bench/application.rb", __dir__)
SMALL = { "request_cache.rb" => %w[3 200], "erb_pages.rb" => %w[2], "interpreted_pages.rb" => %w[6], "png_writer.rb" => %w[1],
          "pdf_writer.rb" => %w[1 3], "document_parser.rb" => %w[0.1 2], "boot.rb" => [], "buffers_64k.rb" => %w[1], "arrays.rb" => %w[2],
          "small_site.rb" => %w[200], "forked_site.rb" => %w[2 50], "forked_cache.rb" => %w[5 2 20], "job_worker.rb" => %w[2 3 30], "batch_import.rb" => %w[4000], "short_script.rb" => [] }.freeze
REQUEST_FIGURES = %w[requests_per_s request_ms_max requests_cpu_s gc_in_requests_ms gc_in_requests_count gc_in_request_ms_max].freeze

# A program on stock Ruby, as the harness starts one on Ashlar.
def stock(scene, arguments, env: {}, limit: 120)
  Subject.command(Subject.environment({ "RUBY_GC_LIBRARY" => nil }.merge(env)), [ENV.fetch("RUBY_STOCK"), *arguments], folder: scene.folder, limit:)
end

def figures(path) = File.readlines(path).map { |line| JSON.parse(line) }.reduce(:merge)

# Where applications.sh has put gems that this Ruby lacks.
GEMS = { "RUBYLIB" => ENV["RUBYLIB"] }.freeze

SMALL.each do |file, arguments|
  claim "#{file} prints on Ashlar what it prints on stock, and tells its figures" do
    report = File.join(folder, "figures")
    ashlar = ruby_command([File.join(WORKLOADS, file), *arguments], limit: 120, env: GEMS.merge("ASHLAR_REPORT_FILE" => report))
    check(ashlar.ok?) { ashlar.describe }
    check(ashlar.out.match?(/\A\S.*\n\z/)) { "no checksum: #{ashlar.out}" }
    check_equal(stock(self, [File.join(WORKLOADS, file), *arguments], env: GEMS).out, ashlar.out)
    told = figures(report)
    check(told["gc_count"].is_a?(Integer) && told["gc_time_ms"].is_a?(Numeric)) { told.inspect }
    check(told["final_mib"].between?(5, 300)) { told.inspect }
    check_equal(REQUEST_FIGURES, REQUEST_FIGURES & told.keys) if File.read(File.join(WORKLOADS, file)).include?("Requests.new")
    check_equal(20, told.keys.grep(/_per_s\z/).size) if file == "arrays.rb"
    check(told["settled_mib"].between?(5, told["highest_mib"])) { told.inspect } if File.read(File.join(WORKLOADS, file)).include?("settled_mib:")
  end
end

claim "percentiles are those of the requests measured, and the collector's time is inside them" do
  source = <<~RUBY
    require "#{WORKLOADS}/requests"
    requests = Requests.new
    40.times { |n| requests.measure { sleep(n == 39 ? 0.2 : 0.01); GC.start if n < 2 } }
    GC.start
    figures = requests.figures
    abort figures.inspect unless figures[:p50_ms].between?(10, 150) && figures[:request_ms_max] >= 200
    abort "p90 of 40 requests rests on 4" if figures.key?(:p90_ms)
    abort figures.inspect unless figures[:gc_in_requests_count] == 2 && figures[:gc_in_requests_ms] >= figures[:gc_in_request_ms_max]
    abort "GC.count" unless GC.count > 2
    abort "rate" unless (figures[:requests_per_s] - 40 / (figures[:request_ms_max] / 1e3 + 39 * 0.0101)).abs < 25
    puts "ok"
  RUBY
  ruby_prints("ok\n", source)
end

claim "settled memory is the mean over the last half of what was noted, and what was noted can be kept" do
  kept = File.join(folder, "notes.csv")
  ruby_prints("85.0 100.0 40.0\n", <<~RUBY, env: { "MEMORY_SAMPLES_FILE" => kept })
    require "#{WORKLOADS}/memory_samples"
    samples = MemorySamples.new
    [40, 100, 100, 70].each { |mib| samples.note(pss_mib: mib.to_f) }
    puts [samples.settled(:pss_mib), samples.highest(:pss_mib), samples.first(:pss_mib)].join(" ")
  RUBY
  lines = File.readlines(kept, chomp: true)
  check_equal(["seconds,pss_mib", "40.00,100.00,100.00,70.00"], [lines.first, lines.drop(1).map { |line| line.split(",").last }.join(",")])
end

claim "the last three notes are compared with notes 4 to 6, if these are over by then" do
  ruby_prints("150.0\nnil\n", <<~RUBY)
    require "#{WORKLOADS}/memory_samples"
    samples = MemorySamples.new
    [1, 2, 4, 8, 90, 100, 110, 140, 150, 160].each { |mib| samples.note(pss_mib: mib.to_f) }
    p samples.late_percent(:pss_mib)
    few = MemorySamples.new
    9.times { |mib| few.note(pss_mib: mib + 1.0) }
    p few.late_percent(:pss_mib)
  RUBY
end

claim "what programs that fork say that they tell has a row in the tables of settled.toml" do
  rows = File.read(File.join(WORKLOADS, "settled.toml"))[/^metrics = \[(.*)\]$/, 1].scan(/\w+/)
  %w[forked_cache.rb forked_server.rb forked_site.rb].each do |file|
    told = File.foreach(File.join(WORKLOADS, file)).take_while { |line| line.start_with?("#") || line == "\n" }.join.scan(/^# (\w+_\w+(?:, \w+)*) {2,}/).flatten.flat_map { |names| names.split(", ") }
    check(told.include?("settled_mib")) { "#{file} tells #{told}" }
    check_equal([], told - rows)
  end
end

claim "memory is read where it is: RSS of this process, and PSS and dirty pages of another" do
  ruby_prints("ok\n", <<~RUBY)
    require "#{WORKLOADS}/memory_samples"
    before = MemorySamples.resident_mib
    held = "x" * (40 << 20)
    grown = MemorySamples.resident_mib - before
    abort "RSS grew by \#{grown} MiB" unless grown.between?(38, 45)
    reader, writer = IO.pipe
    child = fork { writer.close; held.setbyte(0, 121); held[0, 10 << 20] = "y" * (10 << 20); reader.read }
    reader.close
    sleep 0.05 until MemorySamples.of(child)[:private_dirty_mib] > 9.5
    found = MemorySamples.of(child)
    writer.close
    Process.wait(child)
    abort found.inspect unless found[:shared_dirty_mib] > 25 && found[:pss_mib] < found[:rss_mib] - 10
    puts "ok"
  RUBY
end

claim "what one process has seen of requests counts in another" do
  ruby_prints("3 0.5\n", <<~RUBY)
    require "#{WORKLOADS}/requests"
    mine, theirs = Array.new(2) { Requests.new }
    2.times { theirs.measure { 1 } }
    mine.measure { 1 }
    mine.add(theirs.seen)
    seen = mine.seen
    mine.add(Requests::Seen.new([], [], 0, 0.5 - seen.cpu_s))
    puts "\#{seen.seconds.size} \#{mine.figures[:requests_cpu_s].round(6)}"
  RUBY
end

claim "a collection during requests of several threads counts once, one between requests never" do
  ruby_prints("1\n", <<~RUBY)
    require "#{WORKLOADS}/gc_in_requests"
    entered, leave = Queue.new, Queue.new
    application = GcInRequests.new(->(_) { entered << 1; leave.pop })
    GC.start
    GC.disable
    threads = Array.new(3) { Thread.new { application.call({}) } }
    3.times { entered.pop }
    before = GC.count
    GC.start
    told = GC.count - before
    3.times { leave << 1 }
    threads.each(&:join)
    GC.start
    p application.figures[:gc_in_requests_count] / told
  RUBY
end

claim "a session keeps cookies, sends forms, and leaves tokens of forms and of pages, and numbers in their names, out of its checksum" do
  ruby_prints("ok\n", <<~RUBY)
    require "#{WORKLOADS}/rack_session"
    require "securerandom"
    seen = []
    answer = lambda do |environment|
      seen << [environment["REQUEST_METHOD"], environment["PATH_INFO"], environment["QUERY_STRING"], environment["HTTP_COOKIE"], environment["rack.input"].read]
      [200, { "set-cookie" => "a=1; path=/\\nb=\#{seen.size}" }, [%(<meta name="csrf-token" content="\#{rand}"><form name="query-form-\#{SecureRandom.hex(4)}"><input name="authenticity_token" value="\#{rand}">), "!"]]
    end
    sessions = Array.new(2) { RackSession.new(answer) }
    sessions.each { |session| session.post("/form", "x" => "y z", token: session.token(session.get("/page?n=1"))) }
    abort "checksum" unless sessions.map(&:checksum).uniq.size == 1
    abort seen.inspect unless seen[0][0..3] == ["GET", "/page", "n=1", ""] && seen[1][0] == "POST" && seen[1][3] == "a=1; b=1" && seen[1][4].start_with?("x=y+z&token=0.")
    other = RackSession.new(->(_) { [200, {}, ["other"]] })
    other.get("/page?n=1")
    abort "equal" if other.checksum == sessions[0].checksum
    puts "ok"
  RUBY
end

claim "stock's growth at 1 is what Ruby's own defaults are, and a wrong factor is named" do
  script = File.join(WORKLOADS, "stock_growth.sh")
  told = ->(factor) { Subject.command({}, [script, factor, "env"], folder:, limit: 10) }
  settings = told.("1").out.lines.grep(/\ARUBY_GC/).to_h { |line| line.chomp.split("=") }
  check_equal("2.0000 1.8000 0.2000 0.4000 0.6500 16777216 33554432 16777216 134217728", settings.values_at(
    *%w[OLDOBJECT_LIMIT_FACTOR GROWTH_FACTOR FREE_SLOTS_MIN_RATIO FREE_SLOTS_GOAL_RATIO FREE_SLOTS_MAX_RATIO].map { |name| "RUBY_GC_HEAP_#{name}" },
    *%w[MALLOC_LIMIT MALLOC_LIMIT_MAX OLDMALLOC_LIMIT OLDMALLOC_LIMIT_MAX].map { |name| "RUBY_GC_#{name}" }
  ).join(" "))
  check(told.("0.25").out.include?("RUBY_GC_HEAP_FREE_SLOTS_MIN_RATIO=0.0588")) { "0.25 of a quarter is a sixteenth, 0.0588 of all" }
  wrong = told.("1x")
  check_equal([2, "stock_growth.sh: the factor '1x' is no number; give one such as 0.5\n"], [wrong.status.exitstatus, wrong.err])
end

# What scripts/bench/experiments.sh chooses of the experiments here: a line for each, its file's name, programs and variants.
def chosen(scene, programs: "", variants: "", curves: false, debian: "yes")
  source = <<~'SCRIPT'
    set -euo pipefail
    say() { printf '%s\n' "$@" >&2; }
    fail() { say "$@"; exit 2; }
    is_debian() { [[ $DEBIAN ]]; }
    . "$EXPERIMENTS"
    read -ra asked_programs <<<"$PROGRAMS"
    read -ra asked_variants <<<"$VARIANTS"
    files=("$@")
    choose_all
    for file in "${files[@]}"; do echo "${file##*/} ${programs_of[$file]-} ${variants_of[$file]-}"; done
  SCRIPT
  files = (curves ? %w[curves settled_curves] : %w[applications settled]).map { |name| File.join(WORKLOADS, "#{name}.toml") }
  environment = { "EXPERIMENTS" => File.expand_path("../bench/experiments.sh", __dir__), "PROGRAMS" => programs, "VARIANTS" => variants, "DEBIAN" => debian }
  Subject.command(environment, ["bash", "-c", source, "choose", *files], folder: scene.folder, limit: 20)
end

claim "a program or variant that is asked for is measured by the experiments that have it, and one that none has is named" do
  check_equal("applications.toml png stock,inside\nsettled.toml redmine stock,inside\n", chosen(self, programs: "redmine png", variants: "stock inside").out)
  check_equal("applications.toml  \nsettled.toml redmine-forked-2 stock,stock-jemalloc,stock-2-arenas,stock-tuned,inside\n", chosen(self, programs: "redmine-forked-2").out)
  all = chosen(self).out
  check(all.include?("rails,rails-server,") && all.include?("redmine,rails-settled,redmine-forked,") && !all.include?("forked-2") && !all.include?("yjit")) { all }
  check(!chosen(self, debian: "").out.include?("redmine")) { "Redmine where there are no packages of Debian's" }
  check_equal("curves.toml rails stock,ashlar\nsettled_curves.toml  \n", chosen(self, programs: "rails redmine", variants: "stock ashlar", curves: true).out)
  alone = chosen(self, programs: "png redmine", variants: "stock stock-tuned")
  check_equal(["applications.toml  \nsettled.toml redmine stock,stock-tuned\n", "applications.toml is left out: of VARIANTS it has stock.\n"], [alone.out, alone.err])
  wrong = chosen(self, programs: "redmine pgn")
  check(wrong.status.exitstatus == 2 && wrong.err.lines.size == 1 && wrong.err.start_with?("PROGRAMS has 'pgn', which is no program of applications.toml settled.toml; there are arrays batch ")) { wrong.describe }
  check(chosen(self, variants: "stock glibc").err.start_with?("VARIANTS has 'glibc', which is no variant of ")) { "an unknown variant" }
end

# What application.rb makes of an environment: the program's table, as Python's TOML reads it.
def experiment(scene, template: "applications", **environment)
  made = stock(scene, [APPLICATION, "experiment", File.join(WORKLOADS, "#{template}.toml")], env: environment.transform_keys(&:to_s))
  return made unless made.ok?

  read = Subject.command({}, ["python3", "-c", "import json, sys, tomllib; print(json.dumps(tomllib.load(sys.stdin.buffer)))"], folder: scene.folder, limit: 20, input: made.out)
  scene.check(read.ok?) { read.describe }
  JSON.parse(read.out)
end

claim "a Ruby file, a folder with benchmark.rb, with bin/NAME, and an executable can be measured" do
  FileUtils.mkdir_p(%w[bench app/bin].map { |name| File.join(folder, name) })
  { "one.rb" => "", "bench/benchmark.rb" => "", "app/bin/app" => "#!/usr/bin/env ruby\n", "tool" => "#!/bin/sh\n" }.each { |name, text| File.write(File.join(folder, name), text) }
  File.chmod(0o755, File.join(folder, "tool"))
  program = ->(name, **more) { experiment(self, APP: File.join(folder, name), **more)["program"] }
  check_equal(["{ruby}", "#{folder}/one.rb", "a b", "$1"], program.("one.rb", APP_ARGUMENTS: "'a b' '$1'").first["command"])
  check_equal(["{ruby}", "#{folder}/bench/benchmark.rb"], program.("bench").first["command"])
  check_equal(["{ruby}", "#{folder}/app/bin/app"], program.("app").first["command"])
  check_equal("#{folder}/tool", program.("tool").first["command"].last)
  check_equal(["ignore", 60], program.("one.rb", APP_TIMEOUT: "60").first.values_at("output", "timeout_s"))
  curves = experiment(self, template: "curves", APP: File.join(folder, "one.rb"))
  check_equal(["one"], curves["program"].map { |found| found["name"] })
  check(File.executable?(curves["variant"].first["prefix"].first)) { "the prefix must be found from any folder" }
end

claim "a folder with config.ru is driven in process, and under a load where a rate is given" do
  app = File.join(folder, "shop").tap { |path| FileUtils.mkdir_p(path) }
  File.write(File.join(app, "config.ru"), "run ->(_) { [200, {}, ['hi']] }")
  driven, served = experiment(self, APP: app, APP_PATHS: "/ /a?b=1", APP_REQUESTS: "20", APP_RATE: "30")["program"]
  check_equal(["20", "/", "/a?b=1"], driven["command"].last(3))
  check_equal([0, 30, ["/", "/a?b=1"]], served["server"].values_at("port", "rate_per_s", "paths"))
  check_equal(1, experiment(self, APP: app)["program"].size)
end

claim "a Gemfile above the program is found, up to the checkout's root, and can be left alone" do
  FileUtils.mkdir_p(File.join(folder, "checkout/.git"))
  FileUtils.mkdir_p(File.join(folder, "checkout/deep"))
  File.write(File.join(folder, "Gemfile"), "")
  File.write(File.join(folder, "checkout/deep/x.rb"), "")
  asked = ->(**more) { stock(self, [APPLICATION, "gemfile"], env: { "APP" => File.join(folder, "checkout/deep/x.rb") }.merge(more.transform_keys(&:to_s))).out.chomp }
  check_equal("", asked.())
  File.write(File.join(folder, "checkout/Gemfile"), "")
  check_equal(File.join(folder, "checkout/Gemfile"), asked.())
  check_equal("", asked.(APP_BUNDLE: "0"))
  made = experiment(self, APP: File.join(folder, "checkout/deep/x.rb"), APP_GEM_HOME: "/gems")["program"].first["environment"]
  check_equal([File.join(folder, "checkout/Gemfile"), "/gems", "-rbundler/setup"], made.values_at("BUNDLE_GEMFILE", "GEM_HOME", "RUBYOPT"))
end

claim "what cannot be measured is named in one line, with what to do" do
  plain = File.join(folder, "notes.txt").tap { |path| File.write(path, "text") }
  empty = File.join(folder, "empty").tap { |path| FileUtils.mkdir_p(path) }
  app = File.join(folder, "app").tap { |path| FileUtils.mkdir_p(path) }
  File.write(File.join(app, "config.ru"), "")
  { { APP: "" } => "APP is not set", { APP: "/no/such" } => "APP='/no/such' does not exist", { APP: plain } => "neither a Ruby file nor executable",
    { APP: empty } => "has no config.ru, benchmark.rb, bin/empty or exe/empty; give the path of the file to run",
    { APP: app, APP_PATHS: "/ about" } => "APP_PATHS has \"about\"", { APP: app, APP_REQUESTS: "many" } => "APP_REQUESTS='many' is not a number above zero",
    { APP: app, APP_OUTPUT: "yes" } => "APP_OUTPUT='yes' is neither same nor ignore" }.each do |environment, expected|
    made = experiment(self, **environment)
    check(!made.is_a?(Hash) && made.status.exitstatus == 1 && made.err.lines.size == 1 && made.err.include?(expected)) { "#{environment}: #{made.respond_to?(:err) ? made.err : made}" }
  end
end

def asked_until_up(port, path, seconds)
  finish = Process.clock_gettime(Process::CLOCK_MONOTONIC) + seconds
  begin
    TCPSocket.open("127.0.0.1", port) do |socket|
      socket.write("GET #{path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
      return socket.read
    end
  rescue Errno::ECONNREFUSED
    raise Untrue, "nothing listened on port #{port} within #{seconds} s" if Process.clock_gettime(Process::CLOCK_MONOTONIC) > finish

    sleep 0.2
    retry
  end
end

FORKED_FIGURES = %w[requests_per_s request_ms_max requests_cpu_s settled_mib highest_mib first_mib final_mib private_dirty_mib shared_dirty_mib
                    gc_count gc_time_ms worker_gc_count].freeze

# Two workers, two short rounds each, after one in the parent.
def forked_server_claim(scene, name, environment, expected, how: "warmup")
  report = File.join(scene.folder, "figures")
  arguments = [File.join(WORKLOADS, "forked_server.rb"), name, "2", "2", "1", how]
  environment = environment.merge("REQUESTS_A_ROUND" => "15")
  ashlar = scene.ruby_command(arguments, limit: 300, env: environment.merge("ASHLAR_REPORT_FILE" => report))
  scene.check(ashlar.ok? && ashlar.out.match?(expected)) { ashlar.describe }
  scene.check_equal(stock(scene, arguments, env: environment, limit: 300).out, ashlar.out)
  # One line of the process, and one of its requests.
  scene.check_equal(2, File.readlines(report).size)
  told = figures(report)
  scene.check_equal(FORKED_FIGURES, FORKED_FIGURES & told.keys)
  scene.check(told["first_mib"] < told["highest_mib"] && told["settled_mib"].between?(told["private_dirty_mib"], told["highest_mib"])) { told.inspect }
end

if ENV["TRACKER_DATABASE"]
  RAILS = { "GEM_PATH" => ENV["RAILS_GEM_PATH"], "RUBYLIB" => ENV["RAILS_RUBYLIB"], "BUNDLE_GEMFILE" => ENV["RAILS_GEMFILE"],
            "TRACKER_DATABASE" => ENV["TRACKER_DATABASE"] }.freeze
  TRACKER_ANSWERS = /\A0: 200: \d+, 302: 1; \h{16}\n1: 200: \d+, 302: 1; \h{16}\n\z/

  claim "the Rails application answers the same on Ashlar as on stock, without an error, and leaves its database alone" do
    before = File.stat(ENV["TRACKER_DATABASE"]).then { |stat| [stat.mtime, stat.size] }
    ashlar = ruby_command([File.join(WORKLOADS, "tracker.rb"), "1", "60"], limit: 300, env: RAILS)
    check(ashlar.ok?) { ashlar.describe }
    check(ashlar.out.match?(/\A200: \d+, 302: \d+; \h{16}\n\z/)) { "statuses other than 200 and 302: #{ashlar.out}" }
    check_equal(stock(self, [File.join(WORKLOADS, "tracker.rb"), "1", "60"], env: RAILS, limit: 300).out, ashlar.out)
    check_equal(before, File.stat(ENV["TRACKER_DATABASE"]).then { |stat| [stat.mtime, stat.size] })
  end

  claim "every list, record and form of the Rails application can be read, as a page, as JSON and as CSV" do
    finished = ruby(<<~RUBY, limit: 300, env: RAILS.merge("TRACKER_RAISE" => "1"))
      require "#{WORKLOADS}/tracker_start"
      require "#{WORKLOADS}/rack_session"
      session = RackSession.new(Rails.application)
      session.post("/session", email: "bo.berg.1@example.org", authenticity_token: session.token(session.get("/session/new")))
      paths = Rails.application.routes.routes.select { |route| route.verb == "GET" && route.path.spec.to_s.exclude?("rails/") }
                   .map { |route| route.path.spec.to_s.sub("(.:format)", "").gsub(/:\\w+/, "3") }.uniq
      paths.each { |path| session.get(path) }
      (paths.grep(%r{\\A/\\w+\\z}) - ["/search"]).each { |path| session.get(path + ".json"); session.get(path + ".csv") }
      puts session.statuses.keys.sort.join(" "), paths.size
    RUBY
    check(finished.ok?) { finished.describe }
    statuses, paths = finished.out.lines
    check_equal("200 302\n", statuses)
    check(paths.to_i > 180) { "only #{paths} paths" }
  end

  claim "the Rails application behind its server answers on loopback, ends with TERM, and tells what was inside requests" do
    port = TCPServer.open("127.0.0.1", 0) { |probe| probe.addr[1] }
    report = File.join(folder, "figures")
    environment = Subject.environment(RAILS.merge("ASHLAR_REPORT_FILE" => report))
    pid = Process.spawn(environment, Subject.ruby, File.join(WORKLOADS, "tracker_server.rb"), port.to_s, ENV.fetch("RAILS_SERVER", "webrick"), chdir: folder)
    begin
      answer = asked_until_up(port, "/issues/42", 120)
      check(answer.start_with?("HTTP/1.1 200") && answer.include?("<h1>")) { answer[0, 300] }
    ensure
      Process.kill(:TERM, pid)
      Process.wait(pid)
    end
    check_equal(%w[gc_count gc_in_requests_count gc_in_requests_ms gc_time_ms], figures(report).keys.grep(/gc_/).sort)
  end

  claim "the Rails application as a server that forks answers the same on Ashlar as on stock, and tells what its processes take together" do
    forked_server_claim(self, "tracker", RAILS, TRACKER_ANSWERS)
  end

  claim "the Rails application answers the same when a worker that has served forks the others, and only that worker tells figures" do
    forked_server_claim(self, "tracker", RAILS, TRACKER_ANSWERS, how: "refork")
  end
else
  puts "not run: the claims about the Rails application, as TRACKER_DATABASE is not set (make test-applications sets it on Debian)"
end

if ENV["REDMINE_DATABASE"]
  REDMINE = { "GEM_PATH" => ENV["REDMINE_GEM_PATH"], "RUBYLIB" => ENV["REDMINE_RUBYLIB"], "REDMINE_FOLDER" => ENV["REDMINE_FOLDER"],
              "REDMINE_DATABASE" => ENV["REDMINE_DATABASE"], "RUBYOPT" => "-W0" }.freeze

  claim "Redmine answers the same on Ashlar as on stock, without an error, and leaves its database alone" do
    before = File.stat(ENV["REDMINE_DATABASE"]).then { |stat| [stat.mtime, stat.size] }
    arguments = [File.join(WORKLOADS, "in_rounds.rb"), "redmine", "1"]
    environment = REDMINE.merge("REQUESTS_A_ROUND" => "15")
    ashlar = ruby_command(arguments, limit: 300, env: environment)
    check(ashlar.ok? && ashlar.out.match?(/\A200: 30; \h{16}\n\z/)) { ashlar.describe }
    check_equal(stock(self, arguments, env: environment, limit: 300).out, ashlar.out)
    check_equal(before, File.stat(ENV["REDMINE_DATABASE"]).then { |stat| [stat.mtime, stat.size] })
  end

  claim "Redmine as a server that forks answers the same on Ashlar as on stock, and tells what its processes take together" do
    forked_server_claim(self, "redmine", REDMINE, /\A0: 200: 30; \h{16}\n1: 200: 30; \h{16}\n\z/)
  end
else
  puts "not run: the claims about Redmine, as REDMINE_DATABASE is not set (make test-applications REDMINE=yes sets it on Debian; two minutes the first time)"
end
