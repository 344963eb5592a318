claim "ruby -e runs a line and exits with its status" do
  finished = ruby_command(["-e", "puts 1 + 1; exit 7"])
  check_equal("2\n", finished.out) { finished.describe }
  check_equal(7, finished.status.exitstatus)
  check_equal("", finished.err)
end

claim "a program read from standard input runs" do
  finished = ruby_command(["-"], input: "puts [3, 1, 2].sort.inspect\n__END__\nrest")
  check_equal("[1, 2, 3]\n", finished.out) { finished.describe }
end

claim "RUBY_DESCRIPTION names the collector" do
  finished = ruby_command(["-v"])
  check_match(/\+GC\[#{Subject.library}\]/, finished.out)
end

claim "GC.config names the collector" do
  ruby_prints("#{Subject.library}\n", "puts GC.config[:implementation]")
end

claim "an irb session through a pipe evaluates line after line and keeps its variables", needs: "irb" do
  session = <<~RUBY
    words = %w[course block stone]
    widths = words.to_h { |word| [word, word.size] }
    def total(widths)
      widths.values.sum
    end
    300.times { |i| eval("widths['w' + i.to_s] = #{'#{i}'} + 0") }
    GC.start
    total(widths)
    words.map(&:upcase)
    [1, 2
    ].sum
    raise "expected"
    $!.message
    exit
  RUBY
  finished = ruby_command(["-S", "irb", "-f", "--noprompt", "--noecho-on-assignment", "--nocolorize"], input: session,
                          env: { "HOME" => folder, "TERM" => "dumb" })
  check(finished.ok?) { finished.describe }
  check_match(/44866/, finished.out)
  check_match(/\["COURSE", "BLOCK", "STONE"\]/, finished.out)
  check_match(/RuntimeError/, finished.out + finished.err)
end

claim "a loop of reads and evaluations answers every line of a long session" do
  lines = Array.new(2_000) { |i| "(#{i} * 3).to_s + ['x'] .first * #{i % 7}" }
  source = <<~RUBY
    scope = binding
    while line = gets
      puts eval(line, scope)
    end
  RUBY
  path = File.join(folder, "session.rb")
  File.write(path, source)
  finished = ruby_command([path], input: lines.join("\n"))
  expected = Array.new(2_000) { |i| (i * 3).to_s + "x" * (i % 7) }.join("\n") + "\n"
  check(finished.ok?) { finished.describe }
  check_equal(expected.hash, finished.out.hash) { finished.describe }
end

claim "a syntax error is reported as such" do
  finished = ruby_command(["-e", "def x; 1 +; end"])
  check_equal(1, finished.status.exitstatus)
  check_match(/syntax error/i, finished.err)
end

claim "warnings about the collector are absent with every warning on" do
  finished = ruby_command(["-W:deprecated", "-w", "-e", "puts :quiet"])
  check_equal("", finished.err)
end

claim "the place of the system's configuration files is where this Ruby is installed, not where it was compiled", only: "inside" do
  ruby_prints("true\n", 'require "etc"; puts Etc.sysconfdir == RbConfig::CONFIG["sysconfdir"]')
end
