"""Knobs: settings are paired by name and value, and a sweep stops when its curves are known."""

import dataclasses

import numpy as np
import pytest
from conftest import make_run, simulated_sweep, two_variants

from ashlar_lab.experiment.model import Stop, Variant
from ashlar_lab.fit.analysis import analyse
from ashlar_lab.fit.cells import common_values
from ashlar_lab.fit.difference import differences
from ashlar_lab.fit.precision import precise_enough
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
