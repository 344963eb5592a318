"""A percentile that failed requests reach is infinite: it counts as the longest of its blocks, and takes no block out of a comparison."""

import dataclasses
import json
import math
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from conftest import TWIN, make_run, simulated_sweep, two_variants
from fleet import Fleet

from ashlar_lab.experiment.model import Contrast
from ashlar_lab.fit.analysis import analyse
from ashlar_lab.fit.cells import Cells
from ashlar_lab.fit.contrasts import MISSED, OPEN
from ashlar_lab.fit.curves import curves_of
from ashlar_lab.fit.difference import BETTER, UNDECIDED, WORSE, differences, within
from ashlar_lab.fit.trimmed import Estimate, trimmed, trimmed_columns
from ashlar_lab.report import FORMS, page, terminal, units, words, write

INF = math.inf
HALF, ALL, NONE = [5.0, INF] * 5, [INF] * 10, [5.0] * 10
GOAL = Contrast("p99.9 / old", "p999_ms", "new", "old")


def measured(new, old=10.0, twin=10.0, metric: str = "p999_ms", **rest):
    """Ten blocks; each of the three is one value, or one for each block."""
    experiment = two_variants(contrasts=(GOAL,), **{"time_metric": "p999_ms", **rest})
    experiment = dataclasses.replace(experiment, programs=tuple(dataclasses.replace(p, goals={GOAL.name: 0.9}) for p in experiment.programs))
    runs = [make_run(b, program.name, variant, None, 1.0, 100, role,
                     metrics={"p50_ms": 2.0, "requests_per_s": 100.0, metric: float(value), "failed_requests": 2.0 * (value == INF)})
            for program in experiment.programs for variant, role, values in (("old", "main", old), ("new", "main", new), ("old", TWIN, twin))
            for b, value in enumerate(np.broadcast_to(values, 10))]
    return experiment, runs


def said(experiment, runs) -> str:
    return next(s for s in words.verdict(experiment, analyse(experiment, runs)) if s.startswith("new, p99.9"))


def judged(new, **more) -> set[str]:
    """Of runs in the same blocks, and of two stores."""
    (experiment, runs), (_, before) = measured(new, **more), measured(more.get("old", 10.0))
    apart = [d for d in differences(experiment, before, runs, ["p999_ms"], 0.05, False) if d.variant == "new"]
    return {d.judged for d in (*within(experiment, runs, ["p999_ms"], 0.05), *apart)}


def test_a_percentile_that_is_infinite_in_half_of_the_blocks_is_not_better():
    assert judged(NONE) == {BETTER} and "better" in said(*measured(NONE))
    assert judged(HALF) == {UNDECIDED}
    text = said(*measured(HALF))
    assert "better" not in text and "∞ of old's, but the interval is too wide to say anything" in text
    assert analyse(*measured(HALF)).answers[0].judged == OPEN


@pytest.mark.parametrize("state", ["crashed", "timed out"])
def test_a_run_that_failed_because_of_its_requests_counts_for_latencies_and_for_nothing_else(state):
    """It is as in the half of the blocks above, but for its state; and its CPU time and memory, which are small, are in no figure."""
    experiment, runs = measured(HALF)
    runs = [dataclasses.replace(r, state=state, reason="40 of 3200 requests failed", metrics={**r.metrics, "cpu_s": 0.01}) if r.metrics["p999_ms"] == INF else r for r in runs]
    analysis = analyse(experiment, runs)
    assert {d.judged for d in within(experiment, runs, ["p999_ms"], 0.05)} == {UNDECIDED} and analysis.answers[0].judged == OPEN
    assert "∞ of old's, but the interval is too wide to say anything" in said(experiment, runs)
    assert (cpu := analysis.ratio("p", "new", "cpu_s")).n == 5 and cpu.value == pytest.approx(1.0)
    assert "in no figure, but in those of requests: one that failed counts as longer" in " ".join(words.warnings(experiment, runs, analysis))
    wrong = [dataclasses.replace(r, state="wrong output") if r.state == state else r for r in runs]
    assert analyse(experiment, wrong).ratio("p", "new", "p999_ms").n == 5, "wrong answers have no latency"
    assert "in those of requests" not in " ".join(words.warnings(experiment, wrong, analyse(experiment, wrong)))
    own = [dataclasses.replace(r, told=("p999_ms",)) for r in runs]
    assert analyse(experiment, own).ratio("p", "new", "p999_ms").n == 5, "what a program that failed says itself is not the lab's"


def test_what_another_program_says_of_its_requests_changes_nothing():
    """`p` is driven by the lab, and half of its runs failed; `q` tells the figure itself."""
    experiment, runs = measured(HALF, programs=("p", "q"))
    mixed = [dataclasses.replace(r, told=("p999_ms",)) if r.program == "q" else dataclasses.replace(r, state="crashed") if r.metrics["p999_ms"] == INF else r for r in runs]
    found = analyse(experiment, mixed).ratio("p", "new", "p999_ms")
    assert (found.n, found.value) == (10, INF)


def test_a_percentile_that_is_infinite_in_all_blocks_is_worse():
    assert judged(ALL) == {WORSE} and analyse(*measured(ALL)).answers[0].judged == MISSED
    assert "∞ of old's, 95 % interval ∞ to ∞: more, which is worse" in said(*measured(ALL))


def test_blocks_in_which_both_are_infinite_or_both_are_0_have_no_ratio():
    _, runs = measured([INF, 0.0, 20.0, 0.0, INF, 20.0, 20.0, 20.0, 20.0, 20.0], old=[INF, 0.0, 10.0, 10.0, 10.0, 10.0, 10.0, 10.0, 10.0, INF])
    arms = [next(r.arm for r in runs if r.variant == name and r.role == "main") for name in ("new", "old")]
    (logs,) = Cells(runs).log_ratios("p999_ms", *arms).values()
    assert logs == pytest.approx([math.log(2), -INF, INF, *[math.log(2)] * 4, -INF])


def test_no_verdict_rests_on_an_a_a_arm_that_is_infinite_or_no_number():
    for twin in (ALL, HALF, [INF, 0.0] * 5):
        assert judged(NONE, twin=twin) == judged(ALL, twin=twin) == {UNDECIDED}
        text = said(*measured(NONE, twin=twin))
        assert "no A/A arm says how far the baseline differs from itself, so there is no verdict" in text and "∞" not in text
    assert judged(NONE, old=ALL, twin=ALL) == {BETTER}, "the two are alike where both are always infinite"


def test_a_count_that_is_0_is_the_smallest():
    for new, old, verdict, ratio in ((0.0, 5.0, BETTER, 0.0), (5.0, 0.0, WORSE, INF), (0.0, 0.0, UNDECIDED, None)):
        experiment, runs = measured(new, old, old, metric="gc_count", time_metric="cpu_s")
        (found,) = within(experiment, runs, ["gc_count"], 0.05)
        assert found.judged == verdict and (found.ratio.value == ratio if ratio is not None else units.interval(found.ratio) == "undefined")


@pytest.mark.parametrize("programs", [("p",), ("p", "q")])
@pytest.mark.parametrize(("new", "old", "twin"), [(ALL, 10, 10), (HALF, 10, 10), (0, 10, 10), (10, 0, 0), (5, 10, ALL), (5, ALL, ALL), ([INF, 1.0] * 5, [1.0, INF] * 5, 10), (ALL, ALL, ALL)])
def test_every_form_bears_what_is_infinite_0_or_no_number(tmp_path, capsys, new, old, twin, programs):
    experiment, runs = measured(new, old, twin, programs=programs)
    content = page.build(experiment, {"contenders": {}}, runs, analyse(experiment, runs))
    write.write(content, tmp_path / "r", FORMS)
    terminal.show(content)
    assert "p99.9" in capsys.readouterr().out
    json.loads((tmp_path / "r.json").read_text(), parse_constant=lambda word: pytest.fail(word))
    for figure in content.figures:
        drawn = figure.chart.render()
        ET.fromstring(drawn)
        assert "nan" not in drawn and '"inf' not in drawn and "-inf" not in drawn


@pytest.mark.parametrize("machines", [2, 6])
def test_a_machine_where_requests_fail_is_reported_like_another(machines):
    experiment, runs = Fleet(machines, 10 * machines).runs(np.random.default_rng(1))
    experiment = dataclasses.replace(experiment, time_metric="p999_ms")
    runs = [dataclasses.replace(r, metrics={**r.metrics, "p999_ms": INF if r.variant == "new" and r.machine == "m00" else 1000 * r.metrics["cpu_s"]}) for r in runs]
    content = page.build(experiment, {"contenders": {}}, runs, analyse(experiment, runs))
    spread = next(s for s in content.analysis.machines.spreads if s.metric == "p999_ms")
    assert (spread.highest, spread.high.value) == ("m00", INF) and spread.differs
    assert any("m00 disagrees with the other machines" in w for w in content.warnings)


def test_a_setting_with_infinite_times_is_no_point_of_a_curve():
    experiment, runs = simulated_sweep(np.random.default_rng(2), {"old": (1.3, 40.0, 60.0), "new": (1.1, 40.0, 45.0)})
    runs = [dataclasses.replace(r, metrics={**r.metrics, "cpu_s": INF}) if (r.variant, r.value, r.block) == ("new", "2", 4) else r for r in runs]
    curves, (compared,) = curves_of(experiment, Cells(runs), "p")
    assert {c.variant: len(c.points) for c in curves} == {"old": 7, "new": 6} and compared.blocks == 10


def test_failed_requests_of_runs_that_succeeded_are_a_warning():
    for new, told in ((HALF, "(10 of new)"), (NONE, "")):
        experiment, runs = measured(new)
        found = [w for w in words.warnings(experiment, runs, analyse(experiment, runs)) if "Requests failed" in w]
        assert (told in found[0] and "longer than all others" in found[0]) if told else not found
    both = words.warnings(*measured(HALF, twin=ALL), analyse(*measured(HALF, twin=ALL)))
    assert any("(20 of old, 10 of new)" in w or "(10 of new, 20 of old)" in w for w in both), "the A/A arm is the baseline's"


def test_a_trimmed_mean_bears_what_is_infinite():
    assert (trimmed(ALL).mean, trimmed(ALL).error) == (INF, 0.0) and trimmed([1.0, 2.0] * 4 + [INF] * 2).mean < 2
    for few in (HALF, [1.0, INF, INF, INF, -INF]):
        assert trimmed(few).half_width() == INF
    e = trimmed(HALF).estimate()
    assert (e.value, e.low, e.high) == (INF, -INF, INF) and Estimate(0.0, 0.0, 2.0, 9).inverse() == Estimate(INF, 0.5, INF, 9)


def test_values_that_are_alike_but_for_one_are_not_known_without_error():
    """The winsorised variance of a count that is the same number in nearly all blocks is 0."""
    alike, nearly, other = trimmed_columns(np.array([[5.0] * 10, [5.0] * 9 + [9.0], [5.0] * 5 + [6.0] * 5]).T)
    assert alike.error == 0 and nearly.error == pytest.approx(np.std([5.0] * 9 + [9.0], ddof=1) / math.sqrt(10)) and 0 < other.error < nearly.error
