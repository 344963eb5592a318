# Runs in the emulated machine, on Ruby's own collector, and tries Ashlar in its variants. Writes one line for each check,
# "@ VARIANT|CHECK|ok or FAILED|SECONDS", and what a failed one said before it. The plan is in the environment:
#   VARIANTS, RUBY, RUBY_INSIDE, LIBRARY (its name for RUBY_GC_LIBRARY), LIBRARY_FILE, CLAIMS, GROWTH (rounds and what growth.rb prints)
require "io/wait"

CHECKS = __dir__
LIMIT_S = 1800
# Ruby itself, whatever its collector, has 450 MiB committed, most of it never touched; the rest is for a program.
COMMITTED_MORE_KIB = (450 + 110) << 10
$stdout.sync = true

Variant = Struct.new(:name, :ruby, :environment, :claims)

def variant(name)
  library = ENV.fetch("LIBRARY")
  case name
  when "inside" then Variant.new(name, ENV.fetch("RUBY_INSIDE"), {}, %w[--collector inside])
  when "module" then Variant.new(name, ENV.fetch("RUBY"), { "RUBY_GC_LIBRARY" => library }, [])
  when "preloaded" then Variant.new(name, ENV.fetch("RUBY"), { "RUBY_GC_LIBRARY" => library, "LD_PRELOAD" => ENV.fetch("LIBRARY_FILE") }, %w[--preload])
  else abort "there is no variant '#{name}'"
  end
end

Ended = Struct.new(:out, :status) do
  def ok?(pattern) = status&.success? && pattern.match?(out)

  def how
    return "was stopped after #{LIMIT_S} s" unless status

    status.signaled? ? "was killed by SIG#{Signal.signame(status.termsig)}" : "exited with #{status.exitstatus}"
  end
end

# Runs a command to its end, or to the time limit.
def run(environment, *command)
  out, into = IO.pipe
  pid = Process.spawn({ "LANG" => "C.UTF-8" }.merge(environment), *command, %i[out err] => into, pgroup: true)
  into.close
  text = +""
  until_s = now_s + LIMIT_S
  while (left_s = until_s - now_s).positive? && out.wait_readable(left_s)
    piece = out.read_nonblock(1 << 16, exception: false)
    break unless piece
    text << piece unless piece == :wait_readable
  end
  Process.kill("KILL", -pid) unless (in_time = left_s.positive?)
  _, status = Process.wait2(pid)
  Ended.new(text, (status if in_time))
end

def now_s = Process.clock_gettime(Process::CLOCK_MONOTONIC)

# One check: the block gives what ended; the pattern is what a right one has written.
def check(variant, name, right)
  began_s = now_s
  ended = yield
  fine = ended.ok?(right)
  puts "#{name} #{ended.how}", ended.out.lines.last(60) unless fine
  puts format("@ %s|%s|%s|%.0f", variant.name, name, fine ? "ok" : "FAILED", now_s - began_s)
end

# Writes a setting of the system for as long as the block runs.
def setting(path, value)
  before = File.read(path)
  File.write(path, value)
  yield
ensure
  File.write(path, before[/\[(\w+)\]/, 1] || before)
end

def program(variant, name, *arguments, **environment)
  run(variant.environment.merge(environment.transform_keys(&:to_s)), variant.ruby, "--disable-gems", "#{CHECKS}/#{name}", *arguments)
end

def growth(variant)
  check(variant, "two strings", /\Aok$/) { program(variant, "growth_lines.rb") }
  rounds, line = ENV.fetch("GROWTH").split(" ", 2)
  check(variant, "growth.rb", /\A#{Regexp.escape(line)}$/) { program(variant, "workloads/growth.rb", rounds) }
end

def claims(variant)
  file = ENV.fetch("CLAIMS")
  check(variant, "ruby/test", /^\d+ passed, 0 failed, 0 skipped$/) do
    run(ENV.to_h.slice("RUBY", "RUBY_INSIDE").merge("ASHLAR_GC_LIBRARY" => ENV.fetch("LIBRARY"), "RUBY_SOURCE" => "/"),
        ENV.fetch("RUBY"), "--disable-gems", "#{CHECKS}/ruby/test/run.rb", *variant.claims, "--claims", file, "--slowdown", "20")
  end
end

# What the system commits is limited: it refuses memory that is not there, and nothing is promised. Only in that mode is
# exact what it says that it has committed.
def overcommit(variant)
  setting("/proc/sys/vm/overcommit_kbytes", (1 << 30).to_s) do
    setting("/proc/sys/vm/overcommit_memory", "2") do
      committed_kib = File.read("/proc/meminfo")[/^Committed_AS:\s*(\d+)/, 1].to_i
      File.write("/proc/sys/vm/overcommit_kbytes", (committed_kib + COMMITTED_MORE_KIB).to_s)
      check(variant, "overcommit_memory=2", /^right; refused: NoMemoryError/) { program(variant, "refused.rb", "120") }
    end
  end
end

# Threads take mappings, so the last ones cannot be started.
def mappings(variant)
  setting("/proc/sys/vm/max_map_count", File.read("/proc/sys/vm/max_map_count")) do
    check(variant, "max_map_count", /^right; refused: .*ThreadError/) { program(variant, "refused.rb", "40", "8") }
  end
end

def huge_pages(variant)
  setting("/sys/kernel/mm/transparent_hugepage/enabled", "always") do
    check(variant, "huge pages always", /^right; refused: nothing/) { program(variant, "refused.rb", "40") }
    check(variant, "huge pages asked for", /^right; refused: nothing/) { program(variant, "refused.rb", "40", ASHLAR_HUGE_PAGES: "1") }
  end
end

# A memory cgroup of its own for a program.
def in_cgroup(variant, mib, program, *arguments, **environment)
  cgroup = "/sys/fs/cgroup/full"
  Dir.mkdir(cgroup)
  File.write("#{cgroup}/memory.max", (mib << 20).to_s)
  command = ["sh", "-c", "echo $$ >#{cgroup}/cgroup.procs; exec \"$@\"", "sh", variant.ruby, "--disable-gems", "#{CHECKS}/#{program}", *arguments]
  run(variant.environment.merge(environment.transform_keys(&:to_s)), *command)
ensure
  sleep 0.1 until File.read("#{cgroup}/cgroup.procs").empty?
  Dir.rmdir(cgroup)
end

# A program whose garbage alone would fill its cgroup goes on below it. One whose live data do not fit is killed by the system,
# which has promised the memory: there is nothing that a program could be told.
def full_cgroup(variant)
  File.write("/sys/fs/cgroup/cgroup.subtree_control", "+memory")
  check(variant, "garbage in a cgroup", /^ok$/) { in_cgroup(variant, 64, "garbage.rb", "200", ASHLAR_MEMORY_LIMIT: "auto") }
  check(variant, "a full cgroup", /^right or out of memory$/) do
    ended = in_cgroup(variant, 64, "refused.rb", "100", ASHLAR_MEMORY_LIMIT: "auto")
    expected = ended.status && (ended.status.termsig == Signal.list["KILL"] || ended.ok?(/^right/))
    expected ? Ended.new("right or out of memory\n", run({}, "true").status) : ended
  end
end

ENV.fetch("VARIANTS").split.each do |name|
  variant = variant(name)
  %i[growth claims overcommit mappings huge_pages full_cgroup].each { |part| send(part, variant) }
end
