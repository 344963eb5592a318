"""Below the least number of blocks there are values, and neither an interval nor a verdict."""

import dataclasses
import json

import numpy as np
import pytest
from conftest import TWIN, make_run, two_variants

from ashlar_lab.experiment.model import Contrast, Stop
from ashlar_lab.fit.analysis import analyse
from ashlar_lab.fit.contrasts import OPEN
from ashlar_lab.fit.difference import UNDECIDED, differences, within
from ashlar_lab.fit.precision import precise_enough
from ashlar_lab.fit.trimmed import LEAST_BLOCKS
from ashlar_lab.report import charts, page, words

FEW = range(1, LEAST_BLOCKS)


def measured(blocks: int, programs=("p", "q"), new: float = 0.5):
    """`new` takes half the time and half the memory, with hardly any noise."""
    asked = (Contrast("time / old", "cpu_s", "new", "old"), Contrast("time - old", "cpu_s", "new", "old", difference=True))
    experiment = two_variants(programs=programs, contrasts=asked)
    goals = {asked[0].name: 0.9, asked[1].name: 1.0}
    experiment = dataclasses.replace(experiment, programs=tuple(dataclasses.replace(p, goals=goals) for p in experiment.programs))
    rng = np.random.default_rng(blocks)
    return experiment, [make_run(block, program, variant, None, factor * np.exp(rng.normal(0, 1e-3)), 100 * factor, role)
                        for block in range(blocks) for program in programs
                        for variant, role, factor in (("old", "main", 1.0), ("new", "main", new), ("old", TWIN, 1.0))]


@pytest.mark.parametrize("blocks", FEW)
@pytest.mark.parametrize("programs", [("p",), ("p", "q")])
def test_a_report_has_values_and_says_that_blocks_are_missing(blocks, programs):
    experiment, runs = measured(blocks, programs)
    analysis = analyse(experiment, runs)
    said = words.verdict(experiment, analysis)
    assert said and all("0.50 of old's, but" in s and "too few to say anything" in s for s in said), said
    assert not any(word in s for s in said for word in ("better", "worse", "interval"))
    assert any("too few for intervals" in w for w in words.warnings(experiment, runs, analysis))
    text = json.dumps([t.rows for t in page.build(experiment, {"contenders": {}}, runs, analysis).tables], ensure_ascii=False)
    assert "too few blocks" in text and "±" not in text and "✓" not in text


@pytest.mark.parametrize("blocks", FEW)
def test_no_goal_is_met_no_change_is_judged_and_nothing_is_precise_enough(blocks):
    experiment, runs = measured(blocks)
    assert {a.judged for a in analyse(experiment, runs).answers if a.program} == {OPEN}
    assert {d.judged for d in within(experiment, runs, None, 0.05)} == {UNDECIDED}
    _, slower = measured(10, new=2.0)
    assert {d.judged for d in differences(experiment, runs, slower, None, 0.05, False)} == {UNDECIDED}
    assert not precise_enough(dataclasses.replace(experiment, stop=Stop(1, 9, 0.5)), runs)


@pytest.mark.parametrize("blocks", [4, 6])
def test_no_machine_is_said_to_differ(blocks):
    """Two machines that contradict each other, two blocks on each, then three."""
    experiment, runs = measured(blocks)
    runs = [dataclasses.replace(r, machine=f"m{r.block % 2}", metrics={**r.metrics, "cpu_s": r.metrics["cpu_s"] * (2 if r.variant == "new" and r.block % 2 else 1)}) for r in runs]
    found = analyse(experiment, runs).machines
    assert len(found.spreads) == 4 and any(s.differs for s in found.spreads) == bool(found.disagreements) == (blocks > LEAST_BLOCKS)


def test_the_least_number_is_enough():
    experiment, runs = measured(LEAST_BLOCKS)
    assert all("which is better" in s for s in words.verdict(experiment, analyse(experiment, runs)))
    assert precise_enough(dataclasses.replace(experiment, stop=Stop(1, 9, 0.5)), runs)


@pytest.mark.parametrize("blocks", [LEAST_BLOCKS - 1, LEAST_BLOCKS])
def test_a_picture_of_few_blocks_has_points_alone(blocks):
    experiment, runs = measured(blocks)
    of_q = [dataclasses.replace(r, state="crashed") if r.program == "q" and r.block == 0 else r for r in runs]
    for shown, whiskers, caption in ((runs, 0 if blocks < LEAST_BLOCKS else 3, "trimmed mean; too few blocks for intervals." if blocks < LEAST_BLOCKS else "its 95 % interval."),
                                     (of_q, 0 if blocks < LEAST_BLOCKS else 1, "too few blocks for")):
        figure = charts.figures(experiment, shown, analyse(experiment, shown))[0]
        drawn = figure.chart.render()
        assert (drawn.count('stroke-width="2" x1'), drawn.count(" of old, ")) == (whiskers, 3) and caption in figure.caption
