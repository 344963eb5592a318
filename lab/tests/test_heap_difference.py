"""`ashlar heap diff`: planted leaks are named by file and line, and what only looks like one is not. Programs are simulated, sample by sample."""

import json
from collections import deque

import numpy as np
import pytest
from heap_image import GEM, LEAK, TEMPORARY, Program
from scipy import stats

from ashlar.heap import difference, difference_tables, evidence, image, profile

CACHE = [("LruCache#store", "/srv/app/lru.rb", 40), ("<main>", "/srv/app/app.rb", 3)]
SESSION = [("Session.new", "/srv/app/session.rb", 9), ("<main>", "/srv/app/app.rb", 3)]
JOB = [("Job.new", "/srv/app/job.rb", 5), ("<main>", "/srv/app/app.rb", 3)]
LOADED = [("Kernel#require", "/srv/app/boot.rb", 2)]
TRIALS = 60


def resolved(program: Program) -> profile.Profile:
    content = program.write()
    return profile.from_image(image.parse("made up", lambda offset, count: content[offset:offset + count]))


class Simulation:
    """A server: each collection a few samples of each kind of line. Full collections are every eighth; only those find dead old cells."""

    def __init__(self, seed: int, *, leak=0.0, churn_growth=0.0, promoted=0.0, loading=0.0, leak_line_churn=0.0, session_life=12):
        self.rng, self.program = np.random.default_rng(seed), Program()
        self.rates = dict(leak=leak, churn_growth=churn_growth, promoted=promoted, loading=loading, leak_line_churn=leak_line_churn)
        self.fifo, self.random, self.sessions, self.unfound = deque(), [], [], []
        self.begun, self.session_life = 0, session_life

    def run(self, collections: int, warm=False) -> profile.Profile:
        p, rng = self.program, self.rng
        for i in range(collections):
            dead = p.allocate(TEMPORARY, "String", 160, rng.poisson(3))
            dead += p.allocate(LEAK, "String", 160, rng.poisson(self.rates["leak_line_churn"]))
            p.allocate(LEAK, "Entry", 160, rng.poisson(self.rates["leak"]))
            # Two caches at their limit: one drops the oldest, one drops any.
            self.fifo += p.allocate(CACHE, "Row", 320, rng.poisson(2))
            while len(self.fifo) > 40:
                dead.append(self.fifo.popleft())
            self.random += p.allocate(GEM, "Page", 320, rng.poisson(2))
            while len(self.random) > 40:
                dead.append(self.random.pop(rng.integers(len(self.random))))
            # Sessions end after so many collections on average, and there are more and more of them.
            self.sessions += p.allocate(SESSION, "Session", 640, rng.poisson(0.5 + self.rates["churn_growth"] * self.begun))
            ended = [s for s in self.sessions if rng.random() < 1 / self.session_life]
            self.sessions = [s for s in self.sessions if s not in ended]
            dead += ended
            # What dies after it was promoted is found by a full collection.
            self.unfound += p.allocate(JOB, "Promoted", 160, rng.poisson(self.rates["promoted"]))
            if i < 10 and not warm:
                p.allocate(LOADED, "Code", 640, rng.poisson(self.rates["loading"]))
            full = self.begun % 8 == 7
            if full:
                dead, self.unfound = dead + self.unfound, []
            p.collect(dead, full)
            self.begun += 1
        return resolved(p)


def named(seed: int, **rates) -> list[difference.Line]:
    """The first profile is taken right after a full collection, the second right before one: with all the garbage that there can be."""
    simulation = Simulation(seed, **rates)
    before = simulation.run(64, warm=True)
    return difference.compare(before, simulation.run(63)).leaks


def test_a_leak_is_named_by_file_and_line():
    found = [named(seed, leak=0.6) for seed in range(TRIALS)]
    right = [any(line.frame.place == "/srv/app/cache.rb:12" for line in lines) for lines in found]
    assert np.mean(right) >= 0.95
    assert [line.frame.place for lines in found for line in lines if line.frame.place != "/srv/app/cache.rb:12"] == []


def test_a_leak_is_named_when_its_line_makes_what_dies_as_well():
    assert np.mean([bool(named(seed, leak=0.8, leak_line_churn=3)) for seed in range(TRIALS)]) >= 0.9


@pytest.mark.parametrize("rates", [
    {},  # two caches at their limit, sessions, temporaries
    {"churn_growth": 0.05},
    {"churn_growth": 0.05, "session_life": 40},
    {"promoted": 3},
    {"loading": 4},
    {"churn_growth": 0.03, "promoted": 1, "loading": 3},
], ids=["caches at their limit", "more and more that churns", "more and more that churns slowly", "garbage not yet found", "code loaded once", "all of them"])
def test_what_is_no_leak_is_not_named(rates):
    wrong = [line for seed in range(TRIALS) for line in named(seed, **rates)]
    assert len(wrong) <= TRIALS * 0.02, [line.why for line in wrong]


def test_growth_that_is_no_leak_is_shown_with_its_reason():
    simulation = Simulation(3, loading=8, churn_growth=0.06)
    before = simulation.run(60, warm=True)
    lines = {line.frame.place: line for line in difference.compare(before, simulation.run(64)).lines}
    assert (lines["/srv/app/boot.rb:2"].judged, "and then stopped" in lines["/srv/app/boot.rb:2"].why) == ("grew", True)
    assert lines["/srv/app/session.rb:9"].judged == "grew"
    assert any(words in lines["/srv/app/session.rb:9"].why for words in ("but what it makes dies", "but its old objects die"))
    assert lines["/srv/app/lru.rb:40"].judged == "steady"


def test_one_large_object_is_growth_but_no_leak():
    simulation = Simulation(1)
    before = simulation.run(60)
    simulation.program.allocate(LOADED, "String", 80 * 2 ** 20, 1, payload=True)
    line = next(x for x in difference.compare(before, simulation.run(64)).lines if x.frame.place == "/srv/app/boot.rb:2")
    assert line.judged == "grew" and "too few to say whether it goes on" in line.why
    assert line.evidence.growth.value == pytest.approx(80 * 2 ** 20, rel=0.01)


def test_without_full_collections_nothing_is_called_a_leak():
    program = Program()
    before = resolved(program)
    for _ in range(40):
        program.allocate(LEAK, "Entry", 160, 3)
        program.collect()
    found = difference.compare(before, resolved(program))
    assert found.leaks == [] and found.lines[0].judged == "undecided"
    assert "No full collection lies between the profiles" in difference_tables.warnings(found)[0]


def test_one_full_collection_tells_a_leak_from_garbage_that_was_not_found():
    program = Program()
    before = resolved(program)
    for i in range(40):
        program.allocate(LEAK, "Entry", 160, 3)
        garbage = program.allocate(JOB, "Promoted", 160, 3)
        program.collect(garbage if i < 20 else (), full=i == 20)
    lines = {line.frame.place: line for line in difference.compare(before, resolved(program)).lines}
    leak, job = lines["/srv/app/cache.rb:12"], lines["/srv/app/job.rb:5"]
    assert (leak.judged, leak.evidence.came, leak.evidence.found_live) == ("leak", 120, 63)
    assert (job.judged, job.evidence.came, job.evidence.found_live) == ("grew", 60, 3)
    assert "60 live samples came and 0 went; 57 of them since the last full collection, so they may be garbage" in job.why


def test_what_was_made_since_the_last_full_collection_is_never_called_a_leak():
    program = Program()
    for i in range(8):
        program.collect(full=i == 4)
    before = resolved(program)
    program.collect(full=True)
    for _ in range(40):
        program.allocate(LEAK, "Entry", 160, 3)
        program.collect()
    found = difference.compare(before, resolved(program))
    assert found.lines[0].judged == "undecided" and "only one collection lies between" in found.blind


def test_samples_that_live_in_both_carry_no_error_into_the_growth():
    program = Program()
    program.allocate(LEAK, "Entry", 160, 1000)
    program.collect()
    before = resolved(program)
    for i in range(16):
        program.allocate(LEAK, "Entry", 160, 1)
        program.collect(full=i % 4 == 0)
    line = difference.compare(before, resolved(program)).lines[0]
    assert (line.evidence.came, line.evidence.went) == (16, 0) and line.evidence.growth.error < line.evidence.growth.value < 2 * 16 * 2 ** 19


def test_payloads_whose_class_is_found_out_between_are_the_same_ones():
    program = Program()
    made = program.allocate(LEAK, "", 4000, 50, payload=True)
    program.collect()
    before = resolved(program)
    for sample in made:
        sample.site = (*sample.site[:1], "String", *sample.site[2:])
    for i in range(16):
        program.collect(full=i % 4 == 0)
    line = difference.compare(before, resolved(program)).lines[0]
    assert (line.evidence.came, line.evidence.went, line.judged) == (0, 0, "steady")


def test_many_lines_are_corrected_for():
    """Of 400 lines that do nothing but toss a coin, hardly ever is one called grown."""
    rng = np.random.default_rng(11)
    wrong = 0
    for _ in range(20):
        tests = [(evidence.sign_p(came, 8 - came), 8) for came in rng.binomial(8, 0.5, 400)]
        wrong += any(p <= 0.05 for p in evidence.corrected(tests))
    assert wrong <= 2
    # A line with too few samples to show anything takes nothing from one that has enough.
    assert evidence.corrected([(0.5 ** 9, 9)] + [(0.5, 1)] * 1000)[0] == pytest.approx(0.5 ** 9)


@pytest.mark.parametrize("n", [1, 7, 40, 3000, 60_000])
def test_chances_are_those_that_scipy_knows(n):
    for more in sorted({0, 1, n // 3, n // 2, n - n // 4, n}):
        assert evidence.sign_p(more, n - more) == pytest.approx(stats.binom.sf(more - 1, n, 0.5), rel=1e-8, abs=1e-15)
        for share in (0.15, 0.2, 0.7):
            assert evidence.above(more, n - more, share) == pytest.approx(stats.beta.sf(share, more + 0.5, n - more + 0.5), abs=1e-9)


# ── The command ────────────────────────────────────────────────────────────

@pytest.fixture
def dumps(tmp_path):
    simulation = Simulation(5, leak=1.0)
    simulation.run(60, warm=True)
    (tmp_path / "before.heap").write_bytes(simulation.program.write())
    simulation.run(64)
    (tmp_path / "after.heap").write_bytes(simulation.program.write())
    return tmp_path


def test_the_leak_is_named_in_words_with_its_callers(ashlar, dumps):
    done = ashlar("heap", "diff", "--strict", "before.heap", "after.heap")  # an option may stand between
    assert done.returncode == 1, done.stderr
    sentence = next(line for line in done.stdout.splitlines() if line.startswith("- leak"))
    assert "/srv/app/cache.rb:12 Cache#put (Entry) grew by " in sentence and "leak, score 0.9" in sentence and "sure" not in sentence and "%" not in sentence and "and they stay" in sentence
    assert "How /srv/app/cache.rb:12 is reached, mostly" in done.stdout and "| /srv/app/worker.rb:30 " in done.stdout
    assert "/srv/app/lru.rb" not in done.stdout


def test_the_difference_as_json(ashlar, dumps):
    found = json.loads(ashlar("heap", "diff", "before.heap", "after.heap", "--form", "json", "--output", "-").stdout)
    assert (found["lines"][0]["path"], found["lines"][0]["line"], found["lines"][0]["judged"]) == ("/srv/app/cache.rb", 12, "leak")
    assert found["lines"][0]["score"] > 0.95 and found["version"] == 2 and found["same_process"] and found["full_collections"] == 8
    assert ashlar("heap", "diff", "before.heap", "after.heap", "--form", "json").stdout == "wrote after-growth.json\n"


def test_the_wrong_order_is_refused(ashlar, dumps):
    done = ashlar("heap", "diff", "after.heap", "before.heap")
    assert done.returncode == 2 and "after.heap was taken after before.heap, of the same process; give the earlier one first" in done.stderr


def test_two_processes_are_compared_without_naming_leaks(ashlar, dumps):
    other = Simulation(5, leak=1.0)
    other.program.pid = 77
    other.run(124, warm=True)
    (dumps / "other.heap").write_bytes(other.program.write())
    done = ashlar("heap", "diff", "before.heap", "other.heap", "--strict")
    assert done.returncode == 0 and "two processes" in done.stdout and " grew |" in done.stdout and "leak, " not in done.stdout


def test_two_profiles_that_are_the_same_differ_in_nothing(ashlar, dumps):
    done = ashlar("heap", "diff", "before.heap", "before.heap")
    assert done.returncode == 0 and "changed no more than sampling" in done.stdout
