"""The whole way: a Ruby program on Ashlar takes a profile of itself, and the command reads it. Needs a Ruby that loads collectors."""

import json
import os
import re
import signal
import subprocess

import pytest

PROGRAM = """\
class Store
  def initialize = @kept = []
  def put(n)
    @kept << "entry #{n} " * 40
  end
end
class Lru
  def initialize(limit) = (@limit, @rows = limit, {})
  def add(key)
    @rows[key] = { key: key, text: "row #{key}" * 30 }
    @rows.shift if @rows.size > @limit
  end
end
STORE, LRU = Store.new, Lru.new(2000)
def request(n)
  Array.new(40) { |i| { id: i, name: "name #{i} of #{n}" } }
  STORE.put(n)
  LRU.add(n)
end
8_000.times { |n| request(n) }
GC.start
GC.config(profile: "before.heap")
25_000.times { |n| request(8_000 + n) }
2.times { GC.start }
GC.config(profile: "after.heap")
puts "ready"
$stdout.flush
$stdin.gets if ARGV[0]
"""


# Of two lines whose objects live long, one keeps them; what the other has made since the only full collection is old garbage: four
# rounds, each with a collection, are longer than an object stays young.
ONE_FULL_COLLECTION = """\
def keep(n) = "kept #{n} " * 40
def drop(n) = "dropped #{n} " * 40
kept, queue = [], []
GC.config(space_overhead: 1000, heap_min: 64 << 20)
GC.start
GC.config(profile: "before.heap")
40.times do |round|
  500.times { |n| kept << keep(n) }
  queue << Array.new(500) { |n| drop(n) }
  queue.shift if queue.size > 4
  GC.start(full_mark: round == 20)
end
queue = nil
GC.config(profile: "after.heap")
"""


@pytest.fixture
def started(tmp_path, ruby):
    """Starts a program, which takes samples."""
    program, library = ruby

    def start(*arguments, source=PROGRAM, **environment):
        (tmp_path / "app.rb").write_text(source)
        return subprocess.Popen([program, "--disable-gems", "app.rb", *arguments], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                env={**os.environ, "RUBY_GC_LIBRARY": library, "ASHLAR_PROFILE": "end.heap", "ASHLAR_PROFILE_BYTES": "32K", **environment})
    return start


def test_a_planted_leak_is_named_by_file_and_line_and_a_cache_at_its_limit_is_not(ashlar, started):
    program = started()
    program.communicate(timeout=120)
    assert program.returncode == 0
    found = json.loads(ashlar("heap", "diff", "before.heap", "after.heap", "--form", "json", "--output", "-").stdout)
    assert [(line["path"], line["line"]) for line in found["lines"] if line["judged"] in ("leak", "possible leak")] == [("app.rb", 4)]
    assert found["lines"][0]["judged"] == "leak" and found["lines"][0]["stack"][-1]["label"] == "<main>"


def test_one_full_collection_tells_a_planted_leak_from_old_garbage(ashlar, started):
    program = started(source=ONE_FULL_COLLECTION)
    program.communicate(timeout=120)
    assert program.returncode == 0
    found = json.loads(ashlar("heap", "diff", "before.heap", "after.heap", "--form", "json", "--output", "-").stdout)
    assert found["full_collections"] == 1
    assert [(line["line"], line["judged"]) for line in found["lines"] if line["judged"] in ("leak", "possible leak")] == [(1, "leak")]
    garbage = next(line for line in found["lines"] if line["line"] == 2)
    assert garbage["samples_came"] > 10 and garbage["judged"] != "leak"


def test_what_the_samples_say_is_what_the_heap_counts(ashlar, started):
    def read(process):
        process.communicate(timeout=120)
        return json.loads(ashlar("heap", "end.heap", "--form", "json", "--output", "-").stdout)
    empty = read(started(source=""))
    first_bytes = empty["numbers"]["live_bytes"] - empty["total"]["live_bytes"]  # Ruby's own first objects are not sampled
    assert 0 < first_bytes < 4 * 2 ** 20
    found = read(started())
    live = found["total"]
    assert abs(live["live_bytes"] + first_bytes - found["numbers"]["live_bytes"]) < 2 * live["live_bytes_error"]
    assert abs(live["allocated_bytes"] - found["numbers"]["allocated_bytes"]) < 2 * live["allocated_bytes_error"] + 2 * 2 ** 20
    assert found["lines"][0]["path"] == "app.rb" and found["lines"][0]["line"] == 4


def test_a_program_that_runs_is_read_without_its_help(ashlar, started):
    program = started("wait")
    try:
        assert program.stdout.readline() == "ready\n"
        os.kill(program.pid, signal.SIGSTOP)  # it could not help if it wanted to
        shown = ashlar("heap", program.pid)
        assert shown.returncode == 0 and "app.rb:4 Store#put" in shown.stdout, shown.stderr
        top = ashlar("top", program.pid, "--once").stdout
        assert re.search(r"live +\d+\.?\d* MiB in", top) and re.search(r"collections .* \d+ minor, \d+ major and \d+ full so far", top)
        assert f"| {program.pid} " in ashlar("top").stdout
    finally:
        os.kill(program.pid, signal.SIGCONT)
        program.communicate("\n", timeout=60)
