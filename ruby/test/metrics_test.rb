# Ashlar::Metrics: the live numbers as OpenMetrics text, and the Rack middleware that serves them.

METRICS_FOLDER = File.expand_path("../lib", __dir__)

claim "the middleware answers GET and HEAD of its path and passes everything else on, without Rack" do
  ruby_ok(<<~'RUBY', "-I#{METRICS_FOLDER}")
    require "ashlar/metrics"
    abort "Rack is loaded" if defined?(Rack)
    app = Ashlar::Metrics.new(->(env) { [404, {}, ["passed on #{env["PATH_INFO"]}"]] })
    ask = ->(method, path, to = app) { to.call("REQUEST_METHOD" => method, "PATH_INFO" => path) }
    status, headers, body = ask["GET", "/metrics"]
    abort "status #{status}" unless status == 200
    abort headers.inspect unless headers["content-type"].start_with?("application/openmetrics-text; version=1.0.0")
    abort "length" unless headers["content-length"].to_i == body.join.bytesize
    abort "no end" unless body.join.end_with?("\n# EOF\n")
    abort "HEAD" unless ask["HEAD", "/metrics"].then { |s, h, b| s == 200 && b.empty? && h["content-length"].to_i > 500 }
    abort "POST" unless ask["POST", "/metrics"].first == 404
    abort "another path" unless ask["GET", "/"].last == ["passed on /"]
    other = Ashlar::Metrics.new(->(_) { [404, {}, []] }, path: "/heap")
    abort "path:" unless ask["GET", "/heap", other].first == 200 && ask["GET", "/metrics", other].first == 404
    puts "ok"
  RUBY
end

claim "the text is OpenMetrics: each sample below its family's type, unit and help, counters end in _total, and it ends in # EOF" do
  ruby_ok(<<~'RUBY', "-I#{METRICS_FOLDER}")
    require "ashlar/metrics"
    3.times { GC.start }
    lines = Ashlar::Metrics.text.lines(chomp: true)
    abort "end" unless lines.pop == "# EOF"
    family = type = nil
    seen = []
    lines.each do |line|
      case line
      when /\A# TYPE (\w+) (gauge|counter|summary)\z/
        family, type = $1, $2
        abort "#{family} twice" if seen.include?(family)
        seen << family
      when /\A# UNIT (\w+) (bytes|seconds)\z/ then abort line unless $1 == family && family.end_with?("_#{$2}")
      when /\A# HELP (\w+) \S.*\.\z/ then abort line unless $1 == family
      when /\A(\w+)\{pid="#{Process.pid}"(,quantile="[01]\.\d+")?\} \d+(\.\d+)?\z/
        endings = { "counter" => %w[_total], "gauge" => [""], "summary" => ["", "_count", "_sum"] }.fetch(type)
        abort "#{line} in #{family}" unless endings.any? { $1 == family + _1 }
      else abort "odd line: #{line}"
      end
    end
    value = ->(name) { lines.find { _1.start_with?("#{name}{") }[/ (.*)/, 1].to_f }
    abort "collections" unless value["ashlar_full_collections_total"] >= 3 && value["ashlar_full_collections_total"] <= GC.stat(:complete_gc_count) && value["ashlar_major_collections_total"].between?(value["ashlar_full_collections_total"], GC.stat(:major_gc_count))
    abort "cells" unless value["ashlar_live_cells"] > 1000
    puts "ok"
  RUBY
end

claim "memory, pauses and the process's RSS are in the text", only: "ashlar" do
  ruby_ok(<<~'RUBY', "-I#{METRICS_FOLDER}")
    require "ashlar/metrics"
    kept = Array.new(1000) { "x" * 10_000 }
    GC.start
    values = Ashlar::Metrics.text.scan(/^(\w+)\{[^}]*\} (\S+)$/).to_h.transform_values(&:to_f)
    abort "live #{values}" unless values["ashlar_live_bytes"] > 10_000_000 && values["ashlar_payload_bytes"] > 10_000_000
    rss = File.read("/proc/self/status")[/VmRSS:\s+(\d+)/, 1].to_i * 1024
    abort "RSS" unless (values["ashlar_resident_bytes"] / rss).between?(0.5, 2)
    abort "pauses" unless values["ashlar_pause_seconds_count"].positive? && values["ashlar_pause_seconds_sum"].positive?
    abort "holes" unless values["ashlar_hole_bytes"].between?(0, values["ashlar_cell_block_bytes"])
    puts kept.size == 1000 ? "ok" : "?"
  RUBY
end
