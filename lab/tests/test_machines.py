"""The machine as a factor, against simulated truth. The long form, with tables of coverage: python tests/fleet.py 1000."""

import dataclasses
import math

import numpy as np
import pytest
from conftest import TWIN, make_run, noisy, two_variants
from fleet import Fleet, coverage
from scale import measure as measure_scale

from ashlar_lab.fit.across import POPULATION, across, differ
from ashlar_lab.fit.analysis import analyse
from ashlar_lab.fit.difference import differences
from ashlar_lab.fit.trimmed import exp_estimate, summed, trimmed
from ashlar_lab.report import exports, html, markdown, page, words

FACTS = {"cpu": "simulated", "time": "2000-01-01T00:00:00Z", "contenders": {}}


@pytest.mark.parametrize(("machines", "blocks", "effect"), [(2, 12, 0.0), (4, 16, 0.0), (5, 20, 0.03), (8, 32, 0.03), (20, 40, 0.03)])
def test_intervals_cover_as_promised_whatever_the_machines_are_like(machines, blocks, effect):
    trials = 120
    covered, width, _ = coverage(Fleet(machines, blocks, effect), trials)
    assert covered >= 0.95 - 2.6 * math.sqrt(0.95 * 0.05 / trials)
    assert width < 0.35, "an interval that covers by saying nothing is no answer"


def test_pooling_blocks_as_if_they_were_of_one_machine_would_not_cover():
    """What the factor is for: the same trials, with the names of the machines taken away."""
    covered = 0
    for seed in range(60):
        experiment, runs = Fleet(6, 60, effect=0.06).runs(np.random.default_rng(seed))
        pooled = analyse(experiment, [dataclasses.replace(r, machine="") for r in runs]).ratio("p", "new", "cpu_s")
        covered += pooled.low <= 0.8 <= pooled.high
    assert covered / 60 < 0.8


def test_a_lying_machine_is_found_and_honest_ones_are_not_accused():
    for machines in (2, 3, 6, 20):
        blocks = 20 * machines
        found = [Fleet(machines, blocks, lie=1.3).analysis(seed).machines.disagreements for seed in range(8)]
        last = f"m{machines - 1:02}"
        assert sum(last in {d.machine for d in f} for f in found) >= 7
        if machines > 2:  # of two that differ nobody can say which lies
            assert sum({d.machine for d in f} <= {last} for f in found) >= 7
        honest = [Fleet(machines, blocks).analysis(100 + seed).machines.disagreements for seed in range(12)]
        assert sum(bool(f) for f in honest) <= 1


def test_machines_with_two_blocks_each_are_not_accused_for_being_noisy():
    """Nominal 1 %; 12 % where each is taken to be as noisy as all machines together."""
    found = [Fleet(20, 40).analysis(seed, programs=("p", "q", "r")).machines.disagreements for seed in range(60)]
    assert sum(map(bool, found)) <= 4
    assert Fleet(20, 40, lie=2.5).analysis(1).machines.disagreements, "and a great lie is found"


def test_machines_that_contradict_each_other_are_not_averaged():
    rng = np.random.default_rng(3)
    apart = [np.log(0.7) + rng.normal(0, 0.01, 10), np.log(1.1) + rng.normal(0, 0.01, 10)]
    alike = [np.log(0.8) + rng.normal(0, 0.01, 10), np.log(0.8) + rng.normal(0, 0.02, 10)]
    assert differ([trimmed(g) for g in apart]) and not differ([trimmed(g) for g in alike])
    assert across(apart).half_width() > 0.5 and across(alike).half_width() < 0.02
    found = Fleet(2, 30, lie=1.5).analysis(1)
    assert [s.differs for s in found.machines.spreads if s.metric == "cpu_s"] == [True]


def test_from_five_machines_on_the_interval_is_over_machines():
    """They differ by less than the margin, and each knows its own ratio well: four speak of themselves, five of machines like them."""
    groups = [np.array([m - 1e-5, m, m, m + 1e-5]) for m in (0.0, 0.009, -0.009, 0.006, -0.006)]
    assert not differ([trimmed(g) for g in groups])
    assert across(groups[:4]).half_width() < 1e-4 and across(groups).half_width() > 5e-3


def test_a_liar_among_many_does_not_move_the_answer():
    found = Fleet(20, 200, lie=2.0).analysis(5)
    ratio = found.ratio("p", "new", "cpu_s")
    assert ratio.low <= 0.8 <= ratio.high and ratio.high / ratio.low < 1.06


def test_one_block_a_machine_is_as_good_as_one_machine_when_there_are_many():
    rng = np.random.default_rng(4)
    ratios = np.log(noisy(rng, 30, 0.03))
    one, many = across([ratios]), across([[r] for r in ratios])
    assert (one.mean, one.error) == pytest.approx((many.mean, many.error)) and POPULATION <= 30


def test_seconds_and_mebibytes_are_those_of_one_machine():
    experiment = two_variants()
    runs = [make_run(b, "p", v, None, 1.0 if b % 3 else 9.0, 50 if b % 3 else 500, machine="fast" if b % 3 else "slow") for b in range(12) for v in ("old", "new")]
    found = analyse(experiment, runs)
    assert found.machines.reference == "fast"
    assert found.level("p", "old", "cpu_s").mean.value == 1.0 and found.level("p", "old", "peak_mib").mean.value == 50
    speed = next(m.speed.value for m in found.machines.machines if m.name == "slow")
    assert speed == pytest.approx(9.0)


def test_the_speed_of_a_machine_has_the_interval_of_two_independent_means():
    rng = np.random.default_rng(5)
    logs = {(m, b, v): float(rng.normal(math.log(2.0) * (m == "slow"), 0.03)) for m in ("fast", "slow") for b in range(10 + (m == "fast")) for v in ("old", "new")}
    runs = [make_run(b + 20 * (m == "slow"), "p", v, None, math.exp(log), 50, machine=m) for (m, b, v), log in logs.items()]
    speed = next(m.speed for m in analyse(two_variants(), runs).machines.machines if m.name == "slow")
    parts = {v: [trimmed([log for (m, _, own), log in logs.items() if (m, own) == (machine, v)]) for machine in ("slow", "fast")] for v in ("old", "new")}
    assert speed in [exp_estimate(summed([slow, fast.negated()])) for slow, fast in parts.values()] and speed.low < 2.0 < speed.high


def swept(rng, machines, blocks, effect=0.0):
    """Curves on machines of unlike speed: new has 15 MiB less of least space and takes `0.9` of the time."""
    experiment = two_variants(values=range(7))
    speed = np.exp(rng.normal(0, 0.5, machines))
    own = np.exp(rng.normal(0, effect, machines))
    runs = []
    for block in range(blocks):
        m = block % machines
        for name, c, factor in (("old", 60, 1.0), ("new", 45, 0.9 * own[m])):
            noise = noisy(rng, 7, 0.02, 0.03)
            for k, gap in enumerate((10, 16, 25, 40, 63, 100, 160)):
                both = (1.3 + 40 / gap) * factor * speed[m] * noise[k], (c + gap) * np.exp(rng.normal(0, 0.0005))
                runs += [make_run(block, "p", name, str(k), *both, role, machine=f"m{m:02}") for role in (("main", TWIN) if (name, k) == ("old", 3) else ("main",))]
    return experiment, runs, speed


@pytest.mark.parametrize(("machines", "blocks", "effect"), [(3, 15, 0.0), (6, 18, 0.02), (12, 24, 0.02)])
def test_curves_of_many_machines_compare_as_if_at_one_speed(machines, blocks, effect):
    """Time ratio at equal space and the least space, covered; trials pool over places of the curve."""
    covered = total = 0
    for seed in range(6):
        experiment, runs, _ = swept(np.random.default_rng(seed), machines, blocks, effect)
        found = analyse(experiment, runs)
        (compared,) = found.comparisons
        for at in compared.time_ratios:
            truth = 0.9 * (1.3 + 40 / (at.place - 45)) / (1.3 + 40 / (at.place - 60))
            covered += at.ratio.low <= truth <= at.ratio.high
            total += 1
        assert compared.better()
        curve = next(c for c in found.curves if c.variant == "old")
        assert curve.form == "model" and curve.c.low - 1 <= 60 <= curve.c.high + 1, "unlike speeds are not taken for a bad model"
    assert covered / total > 0.85


def test_two_stores_of_several_machines_are_compared_machine_by_machine():
    def runs(factor, seed):
        rng = np.random.default_rng(seed)
        return [make_run(b, "p", v, None, (1.0 if b % 2 else 4.0) * factor * float(noisy(rng, 1, 0.01, 0)[0]), 50, role, machine="a" if b % 2 else "b")
                for b in range(24 if seed else 21) for v, role in (("old", "main"), ("new", "main"), ("old", TWIN))]

    experiment = two_variants()
    (found, *_) = differences(experiment, runs(1.0, 0), runs(1.2, 1), ["cpu_s"], 0.05, False)
    assert found.judged == "worse" and found.ratio.value == pytest.approx(1.2, rel=0.02) and found.ratio.high < 1.25


def contradictory(machines: int, lie: float = 1.0, blocks: int = 10):
    """Two programs of the same ratio; of the first, the last machine's ratio is `lie` times the others'."""
    rng = np.random.default_rng(1)
    experiment = two_variants(programs=("p", "q"))
    runs = [make_run(b, p, v, None, factor * np.exp(rng.normal(0, 0.01)), 50, role, machine=f"m{b % machines}")
            for b in range(blocks * machines) for p in ("p", "q") for v, role, factor in
            (("old", "main", 1.0), ("new", "main", 0.7 * (lie if p == "p" and b % machines == machines - 1 else 1.0)), ("old", TWIN, 1.0))]
    return experiment, runs


@pytest.mark.parametrize("machines", [2, 4])
def test_machines_that_contradict_each_other_about_a_program_have_no_common_mean_over_programs(machines):
    for lie, sure in ((1.0, True), (1.3, False)):
        experiment, runs = contradictory(machines, lie)
        analysis = analyse(experiment, runs)
        (summary,) = [s for s in analysis.summaries if s.metric == "cpu_s"]
        assert (summary.ratio.high / summary.ratio.low < 1.03) == sure, "the t over machines knows that they differ"
        said = next(s for s in words.verdict(experiment, analysis) if s.startswith("new, CPU time"))
        assert ("which is better" in said) == sure and ("no verdict, because the ratio depends on the machine for p (geometric mean" in said) != sure


def test_two_stores_of_machines_that_contradict_each_other_have_no_common_difference():
    """One machine became slower by half and the other did not."""
    experiment, before = contradictory(2)
    after = [dataclasses.replace(r, metrics={**r.metrics, "cpu_s": r.metrics["cpu_s"] * (1.5 if r.machine == "m1" else 1.02)}) for r in before]
    slower = [dataclasses.replace(r, metrics={**r.metrics, "cpu_s": r.metrics["cpu_s"] * 1.5}) for r in before]
    assert {d.judged for d in differences(experiment, before, after, ["cpu_s"], 0.05, False)} == {"undecided"}
    assert {d.judged for d in differences(experiment, before, slower, ["cpu_s"], 0.05, False)} == {"worse"}


def test_the_report_says_which_machines_how_they_differ_and_who_disagrees():
    experiment, runs = Fleet(6, 120, lie=1.5).runs(np.random.default_rng(2))
    facts = {**FACTS, "machines": {f"m{i:02}": {"cpu": f"cpu {i}", "kernel_instance": "same" if i < 2 else str(i)} for i in range(6)}}
    content = page.build(experiment, facts, runs, analyse(experiment, runs))
    text = markdown.render(content)
    assert "on 6 machines" in content.facts and "Measured on 6 machines" in text
    assert any(w.startswith("m05 disagrees with the other machines") for w in content.warnings)
    assert any("m00, m01 share one machine" in w for w in content.warnings)
    assert "cpu 3" in text and "## 6 machines" in text and "How far the machines differ" in text
    assert "<th>machine</th>" in html.render(content) and next(iter(exports.runs_csv(content))).split(",")[9] == "machine"


def test_a_large_experiment_is_reported_in_little_time_and_memory(tmp_path):
    """A fiftieth of the million that `make simulate-lab` measures; CPU seconds, as the machine may be busy."""
    found = measure_scale(20_000, 100, 3, False, tmp_path)
    assert found["cpu_s"] < 15 and found["mib"] < 400 and found["html_mib"] < 4
