"""The table that each program gets, what a headline shows, and what a record keeps of curves."""

import csv
import json
import math
from dataclasses import replace

import numpy as np
from conftest import make_run, simulated_sweep, two_variants

from ashlar.chart import Chart
from ashlar_lab.experiment.model import TWIN, Experiment
from ashlar_lab.fit.analysis import analyse
from ashlar_lab.fit.trimmed import Estimate
from ashlar_lab.report import by_program, markdown, page, record, terminal

MACHINE = {"cpu": "a CPU"}


def runs_of(program: str, figures: dict, blocks: int = 3):
    """`new` takes half of old's memory, which grows to its end, and as long."""
    found = []
    for block in range(blocks):
        for variant, space in (("old", 80.0), ("new", 40.0)):
            series = tuple((i / 20, space * i / 20, 1) for i in range(21))
            found.append(make_run(block, program, variant, None, 1.0, space, metrics=figures, told=tuple(figures), series=series))
    return found


def measured(**rest):
    experiment = two_variants(programs=("p", "q"), metrics=("requests_per_s", "peak_mib"), headline=("ratios", "programs"), **rest)
    programs = (experiment.programs[0], replace(experiment.programs[1], figures=("first_10_per_s",)))
    experiment = replace(experiment, programs=programs)
    runs = runs_of("p", {"requests_per_s": 50.0}) + runs_of("q", {"first_10_per_s": 7.0, "other_ms": 1.0})
    return experiment, runs, analyse(experiment, runs)


def test_a_program_has_a_table_with_the_metrics_asked_for_and_its_own():
    experiment, runs, analysis = measured()
    first, second = by_program.tables(experiment, runs, analysis)
    assert first.head == ("", "old", "new")
    assert [row[0] for row in first.rows] == ["Requests (1/s)", "Peak memory (MiB)", "RSS over time"]
    assert first.rows[1] == ("Peak memory (MiB)", "80", "40 ×0.50")
    assert [row[0] for row in second.rows] == ["Peak memory (MiB)", "First 10 (1/s)", "RSS over time"]
    assert by_program.tables(replace(experiment, headline=("ratios",)), runs, analysis) == []


def test_memory_over_time_has_one_scale_for_all_variants():
    experiment, runs, _ = measured()
    told = by_program.memory_over_time(experiment, runs, "p")
    assert told["old"][-1] == "█" and told["new"][-1] == "▅" and told["old"][0] == "▁"
    assert list(told["old"]) == sorted(told["old"]), "memory that grows is shown growing"
    longer = [replace(r, series=tuple((2 * t, m, n) for t, m, n in r.series)) if r.variant == "new" else r for r in runs]
    told = by_program.memory_over_time(experiment, longer, "p")
    assert (len(told["old"]), len(told["new"])) == (11, 20), "the axis ends with the longest run"


def test_a_stretch_without_a_reading_is_as_the_one_before():
    assert by_program._bars(((0.0, 10.0, 1), (1.0, 10.0, 1)), 1.0, 10.0) == "█" * 20


def test_the_headline_is_shown_in_its_order_and_alone(capsys):
    experiment, runs, analysis = measured()
    content = page.build(experiment, MACHINE, runs, analysis)
    assert [t.name for t in content.headline()] == ["ratios-cpu_s", "ratios-peak_mib", "program-p", "program-q"]
    assert [t.name for t in content.tables[:4]] == [t.name for t in content.headline()]
    terminal.show(content)
    assert "| RSS over time" in (told := capsys.readouterr().out) and "overhead over the best" not in told
    assert markdown.record(content).count("\n## ") == 4 + 2, "each table has its heading, beside warnings and machine"


def test_a_record_has_by_how_much_the_baseline_differs_from_itself():
    """Whatever the headline asks for; a store from before there was an A/A arm has nothing to tell."""
    experiment, runs, _ = measured()
    twins = [replace(r, role=TWIN, metrics={**r.metrics, "peak_mib": 82.0}) for r in runs if r.variant == "old"]
    content = page.build(experiment, MACHINE, runs + twins, analyse(experiment, runs + twins))
    told = markdown.record(content).partition("## A/A arm: old against itself\n")[2].partition("\n## ")[0]
    assert "| p |" in told.replace("  ", "") and "1.02 [too few blocks]" in told and "Peak memory" in told and "CPU time" in told
    noise = json.loads(record.as_json(content))["noise"]
    assert {(n["program"], n["metric"], n["value"], n["pairs"]) for n in noise if n["metric"] == "peak_mib"} == {("p", "peak_mib", 1.025, 3), ("q", "peak_mib", 1.025, 3)}
    assert {n["metric"] for n in noise} == {"cpu_s", "wall_s", "peak_mib"}
    before = page.build(experiment, MACHINE, runs, analyse(experiment, runs))
    assert "A/A arm: old" not in markdown.record(before) and json.loads(record.as_json(before))["noise"] == []


def test_a_headline_of_ratios_has_their_intervals_for_one_program_too():
    experiment, runs, _ = measured()
    alone = replace(experiment, programs=experiment.programs[:1])
    own = [r for r in runs if r.program == "p"]
    content = page.build(alone, MACHINE, own, analyse(alone, own))
    assert [t.name for t in content.headline()] == ["ratios-cpu_s", "ratios-peak_mib", "program-p"]
    assert [row[0] for row in content.headline()[1].rows] == ["p"], "and no mean over one program"
    unasked = replace(alone, headline=("programs",))
    assert [t.name for t in page.build(unasked, MACHINE, own, analyse(unasked, own)).headline()] == ["program-p"]


def test_what_is_shown_does_not_change_what_was_measured():
    experiment, _, _ = measured()
    plain = replace(experiment, metrics=(), headline=(), programs=tuple(replace(p, figures=()) for p in experiment.programs))
    assert experiment.identity() == plain.identity()
    assert Experiment.from_json(experiment.to_json()) == experiment
    older = json.loads(experiment.to_json())
    older.pop("metrics")
    for program in older["programs"]:
        program.pop("figures")
    assert Experiment.from_json(json.dumps(older)) == replace(plain, headline=experiment.headline)


def test_a_record_of_curves_has_the_knob_and_how_clear_dominance_is():
    experiment, runs = simulated_sweep(np.random.default_rng(2), {"old": (1.3, 40.0, 60.0), "new": (1.1, 40.0, 45.0)}, blocks=8)
    content = page.build(replace(experiment, headline=("curves",)), MACHINE, runs, analyse(experiment, runs))
    told = json.loads(record.as_json(content))
    assert told["curves"][0]["variant"] == "new" and told["curves"][0]["better_p"] < 0.025
    assert {v["knob"] for v in told["values"]} == set("0123456")
    assert {row["knob"] for row in csv.DictReader(record.as_csv(content).splitlines())} == set("0123456")
    assert "faster at every common space" in markdown.record(content)


def test_a_legend_that_is_too_wide_goes_on_in_a_second_line():
    narrow = Chart((0, 1), (0, 1), title="t", x_title="x", width=480, height=300)
    for index, name in enumerate(("stock", "stock-jemalloc", "stock-2-arenas", "ashlar", "ashlar-preloaded")):
        narrow.legend(name, index)
    drawn = narrow.render()
    assert 'viewBox="0 0 480 317"' in drawn and 'translate(0 17)' in drawn
    assert 'y="50">ashlar-preloaded' in drawn and 'y="33">stock<' in drawn
    wide = Chart((0, 1), (0, 1), title="t", x_title="x")
    wide.legend("stock", 0)
    assert 'viewBox="0 0 720 400"' in wide.render() and "translate" not in wide.render()


def test_a_note_that_would_be_cut_off_stands_left_of_its_point():
    chart = Chart((0, 1), (0, 1), title="t", x_title="x")
    chart.note(0.0, 0.5, "GC_FREE_SPACE_DIVISOR=12", 0)
    chart.note(1.0, 0.5, "GC_FREE_SPACE_DIVISOR=1", 0)
    drawn = chart.render()
    assert 'text-anchor="end" x="695.0" y="191.0">GC_FREE_SPACE_DIVISOR=1<' in drawn
    assert '"11" x="69.0" y="191.0">GC_FREE_SPACE_DIVISOR=12<' in drawn


def test_bars_bear_ratios_that_are_large_infinite_or_no_number():
    experiment, runs, analysis = measured()
    content = page.build(experiment, MACHINE, runs, analysis)
    for value, told, full in ((0.5, "0.50", 18), (500.0, "500.00", 36), (math.inf, "∞", 36), (math.nan, "–", 0), (0.0, "0.00", 0)):
        ratios = tuple(replace(r, ratio=Estimate(value, value, value, 10)) for r in analysis.ratios if r.program == "p" and r.metric == "cpu_s")
        line = terminal.bars(replace(content, analysis=replace(analysis, ratios=ratios, summaries=())))[1]
        bar = line.removeprefix("  p  new  ").removesuffix(f" {told}")
        assert len(bar) == 36 and bar.count("█") + bar.count("▌") == full and ("│" in bar) == ("▌" not in bar), (value, line)
        assert line.endswith(f" {told}")
