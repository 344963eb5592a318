"""Knobs: settings are paired by name and value, and a sweep stops when its curves are known."""

import dataclasses

import numpy as np
import pytest
from conftest import TWIN, make_run, simulated_sweep, two_variants

from ashlar_lab.experiment.model import Stop, Variant
from ashlar_lab.fit.analysis import analyse
from ashlar_lab.fit.cells import common_values
from ashlar_lab.fit.difference import UNDECIDED, differences
from ashlar_lab.fit.precision import IN_A_ROW, enough, precise_enough
from ashlar_lab.report import page

TRUTHS = {"old": (1.3, 40.0, 60.0), "new": (1.1, 40.0, 50.0)}


def variant(knob, *values):
    return Variant(f"v-{knob}", "env", knob=knob, values=values)


def test_settings_are_paired_by_the_name_of_the_knob_and_by_value():
    growth, overhead = variant("growth", "50", "100", "200"), variant("space_overhead", "100", "200.0", "many")
    assert common_values(growth, overhead) == []
    assert common_values(growth, variant("growth", "200.0", "1e2")) == [("100", "1e2"), ("200", "200.0")], "1e2 is 100"
    assert common_values(overhead, variant("space_overhead", "many", "more")) == [("many", "many")]
    assert common_values(variant(None), overhead) == [(None, "100"), (None, "200.0"), (None, "many")]
    assert common_values(growth, variant(None)) == [("50", None), ("100", None), ("200", None)]
    assert common_values(variant(None), variant(None)) == [(None, None)]


def unlike(blocks: int = 10, seed: int = 5, **rest):
    """Two variants with the same values of knobs that have nothing to do with each other."""
    experiment, runs = simulated_sweep(np.random.default_rng(seed), TRUTHS, blocks=blocks, **rest)
    old, new = experiment.variants
    return dataclasses.replace(experiment, variants=(dataclasses.replace(old, knob="growth"), dataclasses.replace(new, knob="space_overhead"))), runs


def test_equal_values_of_unlike_knobs_are_compared_nowhere_but_as_curves():
    experiment, runs = unlike()
    analysis = analyse(experiment, runs)
    assert analysis.ratios == () and analysis.comparisons[0].better()
    content = page.build(experiment, {"contenders": {}}, runs, analysis)
    assert not any("At equal" in s for s in content.verdict)
    table = next(t for t in content.tables if t.name == "sweep-p")
    assert [row[0] for row in table.rows] == [f"growth={k}" for k in range(7)] + [f"space_overhead={k}" for k in range(7)]
    assert all((row[1] == "–") != (row[2] == "–") for row in table.rows)
    bounds = next(t for t in content.tables if t.name == "lower-bound")
    assert bounds.rows[0][0] == "p at growth=0" and bounds.rows[0][2] == "–"
    relative = [d for d in differences(experiment, runs, runs, ["cpu_s"], 0.05, True)]
    assert len(relative) == 7 and all(abs(d.ratio.value - 1) < 1e-9 for d in relative)


def swept(knob: str, values: tuple[str, ...], twin: float = 1.0):
    """`old` has a knob and `new` has none; the baseline's second run takes `twin` times its first."""
    experiment = two_variants(names=("old", "new"))
    old, new = experiment.variants
    experiment = dataclasses.replace(experiment, variants=(dataclasses.replace(old, knob=knob or None, values=values if knob else ()), new))
    rng = np.random.default_rng(3)
    runs = [make_run(b, "p", arm.variant, arm.value, (twin if arm.role == TWIN else 1.0) * np.exp(rng.normal(0, 1e-3)), 100, arm.role)
            for b in range(6) for arm in experiment.arms()]
    return experiment, runs


@pytest.mark.parametrize(("knob", "values", "shared"), [("growth", ("50", "100", "200"), ["50", "100", "200"]), ("growth", ("100.0", "300"), ["100"]),
                                                        ("space_overhead", ("50", "100", "200"), []), ("", (), [])])
def test_two_stores_are_compared_at_equal_values_of_one_knob(knob, values, shared):
    (experiment, first), (later, second) = swept("growth", ("50", "100", "200")), swept(knob, values)
    found = differences(experiment, first, second, ["cpu_s"], 0.05, False, later)
    assert [d.value for d in found if d.variant == "old" and d.ratio.n] == shared
    assert [d.value for d in found if d.judged == UNDECIDED] == [v for v in ("50", "100", "200") if v not in shared], "the others are not left out"
    assert [d.value for d in found if d.variant == "new"] == [None]
    (relative,) = differences(experiment, first, second, ["cpu_s"], 0.05, True, later)
    assert bool(relative.ratio.n) == ("100" in shared), "new / old at its middle value, 100"


def test_the_floor_of_a_second_store_is_found_at_its_own_middle_setting():
    (experiment, first), (later, second) = swept("growth", ("50", "100", "200")), swept("growth", ("100", "200", "400"), twin=1.2)
    assert {round(d.floor, 2) for d in differences(experiment, first, second, ["cpu_s"], 0.05, False, later)} == {0.2}


def test_one_knob_written_in_two_ways_is_one_row():
    experiment, runs = simulated_sweep(np.random.default_rng(5), TRUTHS, blocks=5)
    new = dataclasses.replace(experiment.variants[1], values=tuple(f"{k}.0" for k in range(7)))
    runs = [dataclasses.replace(r, value=r.value + ".0") if r.variant == "new" else r for r in runs]
    experiment = dataclasses.replace(experiment, variants=(experiment.variants[0], new))
    analysis = analyse(experiment, runs)
    assert {r.at_value for r in analysis.ratios} == set(new.values)
    table = next(t for t in page.build(experiment, {"contenders": {}}, runs, analysis).tables if t.name == "sweep-p")
    assert [row[0] for row in table.rows] == list("0123456") and not any("–" in row for row in table.rows)


def stopping(experiment, precision: float):
    return dataclasses.replace(experiment, stop=Stop(1, 99, precision))


@pytest.mark.parametrize("made", [unlike, lambda blocks, **rest: simulated_sweep(np.random.default_rng(6), TRUTHS, blocks=blocks, **rest)])
def test_a_sweep_goes_on_until_the_mean_ratio_of_its_curves_is_known(made):
    experiment, runs = made(10, sigma=0.03, spikes=0)
    area = analyse(experiment, runs).comparisons[0].area
    half = np.log(area.high / area.low) / 2
    assert precise_enough(stopping(experiment, 1.01 * half), runs) and not precise_enough(stopping(experiment, 0.99 * half), runs)
    assert not precise_enough(stopping(experiment, 0.9), [r for r in runs if r.block < 4]), "too few blocks know nothing"


def test_a_curve_that_is_compared_with_none_goes_on_until_its_points_are_known():
    experiment, runs = simulated_sweep(np.random.default_rng(7), TRUTHS, sigma=0.02, spikes=0)
    alone = dataclasses.replace(experiment, variants=experiment.variants[:1])
    own = [r for r in runs if r.variant == "old"]
    assert precise_enough(stopping(alone, 0.1), own) and not precise_enough(stopping(alone, 0.005), own)


def test_a_point_beside_curves_must_be_known_too():
    experiment = two_variants(values=range(3), names=("old", "point"))
    experiment = dataclasses.replace(experiment, variants=(experiment.variants[0], Variant("point", "env")))
    rng = np.random.default_rng(8)
    runs = [make_run(b, "p", "old", str(k), 3 - k / 2, 100 + 20 * k) for b in range(10) for k in range(3)]
    runs += [make_run(b, "p", "point", None, 2 * np.exp(rng.normal(0, 0.1)), 100) for b in range(10)]
    assert precise_enough(stopping(experiment, 0.3), runs) and not precise_enough(stopping(experiment, 0.02), runs)


def test_measuring_stops_when_the_intervals_stay_narrow():
    """The interval is narrow after ten blocks, wide after fifteen, and narrow again for good some time after."""
    experiment = dataclasses.replace(two_variants(), stop=Stop(1, 99, 0.02))
    ratios = [1.0, 1.01] * 5 + [1.2, 1.25, 1.3, 1.35, 1.4] + [1.0, 1.01] * 40
    runs = [make_run(b, "p", v, None, t, 100) for b, r in enumerate(ratios) for v, t in (("old", 1.0), ("new", r))]
    narrow, stops = ([rule(experiment, runs[:2 * n]) for n in range(1, len(ratios) + 1)] for rule in (precise_enough, enough))
    assert narrow[9] and not narrow[14] and narrow[-1]
    assert stops == [all(narrow[max(0, n - IN_A_ROW + 1):n + 1]) for n in range(len(ratios))]
    assert stops[9] and not stops[14] and stops.index(True, 14) == narrow.index(True, 14) + IN_A_ROW - 1


@pytest.mark.parametrize(("with_knob", "setting"), [("old", "k=2"), ("new", "k=2")])
def test_where_one_has_no_knob_each_setting_is_compared_and_said(with_knob, setting):
    """At one of its settings the variant takes half."""
    experiment = two_variants(values=(1, 2, 3))
    experiment = dataclasses.replace(experiment, variants=tuple(v if v.name == with_knob else dataclasses.replace(v, knob=None, values=()) for v in experiment.variants))
    runs = [make_run(b, "p", arm.variant, arm.value, (0.5 if arm.variant == "new" and arm.value == "2" else 2.0 if arm.variant == "old" and arm.value == "2" and arm.role == "main" else 1.0)
                     * (1 + b / 1000), 100, arm.role) for b in range(10) for arm in experiment.arms()]
    runs = [dataclasses.replace(r, metrics={**r.metrics, "cpu_s": 2 * r.metrics["cpu_s"]}) if r.role == TWIN and with_knob == "old" else r for r in runs]
    content = page.build(experiment, {"contenders": {}}, runs, analyse(experiment, runs))
    assert f"p: new, CPU time against old's, at each of 3 values of k: less at {setting}." in content.verdict
    assert "p: new, peak memory against old's, at each of 3 values of k: no difference shown." in content.verdict
    rows = {row[0]: row[1] for t in content.tables if t.name == "points-p" for row in t.rows}
    assert set(rows) == {"new at k=1", "new at k=2", "new at k=3"} and rows[f"new at {setting}"].startswith(("0.49", "0.50"))


def test_variants_without_a_knob_are_compared_beside_one_that_has_it():
    experiment = two_variants(values=(1, 2), names=("old", "new", "swept"))
    experiment = dataclasses.replace(experiment, variants=tuple(v if v.name == "swept" else dataclasses.replace(v, knob=None, values=()) for v in experiment.variants))
    runs = [make_run(b, "p", arm.variant, arm.value, (0.5 if arm.variant == "new" else 1.0) * (1 + b / 1000), 100, arm.role) for b in range(10) for arm in experiment.arms()]
    content = page.build(experiment, {"contenders": {}}, runs, analyse(experiment, runs))
    assert any(s.startswith("p: new, CPU time: 0.50") and "which is better" in s for s in content.verdict)
