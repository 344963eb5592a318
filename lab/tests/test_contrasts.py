"""Named questions: what is asked is answered, and a goal is met only by the whole interval."""

import csv
import json
from dataclasses import replace

import pytest
from conftest import TWIN, make_run, two_variants

from ashlar_lab.experiment.model import Contrast
from ashlar_lab.fit.analysis import analyse
from ashlar_lab.fit.contrasts import MET, MISSED, OPEN, judged
from ashlar_lab.fit.trimmed import Estimate
from ashlar_lab.report import by_program, contrasts, markdown, page, record

RATIO = Contrast("time / old", "cpu_s", "new", "old")
DIFFERENCE = Contrast("time − old", "cpu_s", "new", "old", difference=True)
REVERSED = Contrast("time / new", "cpu_s", "old", "new")
MACHINE = {"cpu": "simulated", "contenders": {"new": {"executables": {"x": {"path": "/secret/place/x", "version": None}}, "library": "/secret/place/y.so", "package": None}}}


def measured(goals=None, asked=(RATIO, DIFFERENCE, REVERSED), **rest):
    """`new` takes 0.5 of the time on p and 2.0 on q, in blocks of very different speed."""
    experiment = two_variants(programs=("p", "q"), contrasts=asked, headline=("contrasts", "side-by-side"), **rest)
    experiment = replace(experiment, programs=tuple(replace(p, goals=goals or {}) for p in experiment.programs))
    runs = []
    for block in range(10):
        speed = 1.0 + block % 3
        for program, factor in (("p", 0.5), ("q", 2.0)):
            runs += [make_run(block, program, "old", None, speed, 100, role) for role in ("main", TWIN)]
            runs.append(make_run(block, program, "new", None, speed * factor * (1 + 0.001 * (block % 2)), 90))
    return experiment, runs, analyse(experiment, runs)


def answer(analysis, contrast, program):
    return next(a for a in analysis.answers if (a.contrast, a.program) == (contrast.name, program))


def test_pairs_of_one_block_are_compared_in_either_direction():
    _, _, analysis = measured()
    assert answer(analysis, RATIO, "p").estimate.value == pytest.approx(0.5, rel=0.001)
    assert answer(analysis, REVERSED, "p").estimate.value == pytest.approx(2.0, rel=0.001)
    assert answer(analysis, RATIO, "p").estimate.high < 0.505


def test_the_programs_together_are_their_geometric_mean():
    _, _, analysis = measured()
    assert answer(analysis, RATIO, None).estimate.value == pytest.approx(1.0, rel=0.001)
    assert not [a for a in analysis.answers if a.contrast == DIFFERENCE.name and a.program is None]


def test_a_difference_is_in_the_unit_of_the_metric_and_shown_in_milliseconds():
    experiment, _, analysis = measured()
    found = answer(analysis, DIFFERENCE, "q")
    assert 1.0 < found.estimate.value < 3.0
    assert contrasts.estimate(found, DIFFERENCE).startswith(f"+{found.estimate.value * 1000:.2f} ±")
    assert "time − old (ms)" in contrasts.table(experiment, analysis).head


@pytest.mark.parametrize(("low", "high", "verdict"), [(0.5, 0.7, MET), (0.5, 0.71, OPEN), (0.7, 0.9, OPEN), (0.71, 0.9, MISSED)])
def test_only_the_whole_interval_meets_or_misses_a_goal(low, high, verdict):
    assert judged(Estimate((low + high) / 2, low, high, 10), 0.7) == verdict


def test_goals_stand_beside_the_answers():
    experiment, _, analysis = measured(goals={RATIO.name: 0.9})
    table = contrasts.table(experiment, analysis)
    assert table.head == ("", "time / old", "goal", "time − old (ms)", "time / new")
    assert [row[2] for row in table.rows] == ["0.90 ✓", "0.90 ✗", ""]


def test_one_table_has_every_value_with_its_ratio():
    experiment, _, analysis = measured()
    rows = {row[0]: row for row in by_program.side_by_side(experiment, analysis).rows}
    assert rows["p · new"][3] == "90  × 0.90" and rows["p · old"][3] == "100  × 1.00"
    assert not by_program.side_by_side(replace(experiment, headline=()), analysis)


def test_a_record_is_readable_and_names_no_place():
    experiment, runs, analysis = measured(goals={RATIO.name: 0.9})
    content = page.build(experiment, MACHINE, runs, analysis)
    told = json.loads(record.as_json(content))
    assert {a["program"] for a in told["answers"]} == {"p", "q", None}
    assert len(list(csv.DictReader(record.as_csv(content).splitlines()))) == len(runs)
    for text in (markdown.record(content), record.as_json(content), record.as_csv(content)):
        assert "secret" not in text
