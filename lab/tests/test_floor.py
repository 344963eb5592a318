"""What differs between the baseline and itself is noise: no verdict of any kind claims less."""

import dataclasses
import json

import numpy as np
import pytest
from conftest import TWIN, make_run, simulated_sweep, two_variants

from ashlar_lab.experiment.model import Contrast
from ashlar_lab.fit.analysis import analyse
from ashlar_lab.fit.contrasts import MET, MISSED, OPEN
from ashlar_lab.fit.difference import BETTER, SAME, UNDECIDED, WORSE, differences, within
from ashlar_lab.report import ci, difference, page, record, words

RATIO = Contrast("ratio", "cpu_s", "new", "old")
AMOUNT = Contrast("amount", "cpu_s", "new", "old", difference=True)


def measured(new: float, twin: float, goals: dict | None = None, blocks: int = 10):
    """Two programs with hardly any noise, but the baseline's second run takes `twin` times its first, in the second program."""
    experiment = two_variants(programs=("p", "q"), contrasts=(RATIO, AMOUNT))
    experiment = dataclasses.replace(experiment, programs=tuple(dataclasses.replace(p, goals=goals or {}) for p in experiment.programs))
    rng = np.random.default_rng(1)
    return experiment, [make_run(block, program, variant, None, factor * np.exp(rng.normal(0, 1e-3)), 100, role)
                        for block in range(blocks) for program in ("p", "q")
                        for variant, role, factor in (("old", "main", 1.0), ("new", "main", new), ("old", TWIN, twin if program == "q" else 1.0))]


@pytest.mark.parametrize(("goal", "quiet"), [(0.9, MET), (0.84, MISSED)])
def test_a_goal_is_met_or_missed_only_by_more_than_the_floor(goal, quiet):
    for twin, expected in ((1.0, quiet), (1.1, OPEN)):
        analysis = analyse(*measured(0.87, twin, {"ratio": goal}))
        assert {a.judged for a in analysis.answers if a.contrast == "ratio" and a.program} == {expected}


def test_a_goal_for_a_difference_has_the_floor_of_its_program_in_its_unit():
    analysis = analyse(*measured(0.95, 1.1, {"amount": 0.0}))
    assert {a.program: a.judged for a in analysis.answers if a.contrast == "amount"} == {"p": MET, "q": OPEN}


@pytest.mark.parametrize(("new", "word"), [(0.95, "better"), (1.05, "worse")])
def test_a_ratio_is_better_or_worse_only_by_more_than_the_floor(new, word):
    for twin, judged in ((1.0, True), (1.08, False)):
        experiment, runs = measured(new, twin)
        for one_program in (False, True):
            said = " ".join(words.verdict(experiment, analyse(experiment, [r for r in runs if r.program == "q"] if one_program else runs)))
            assert (f", which is {word}" in said) == judged and ("differs from itself by 8.0 %, so this is within the noise" in said) != judged


@pytest.mark.parametrize(("new", "quiet"), [(1.1, WORSE), (0.9, BETTER), (1.0, SAME)])
def test_ci_and_diff_judge_only_by_more_than_the_floor(new, quiet):
    for twin, expected in ((1.0, quiet), (1.08, UNDECIDED)):
        experiment, runs = measured(new, twin)
        shown = within(experiment, runs, ["cpu_s"], 0.03)
        assert {d.judged for d in shown} == {expected}
        _, before = measured(1.0, 1.0)
        stored = [d for d in differences(experiment, before, runs, ["cpu_s"], 0.03, False) if d.variant == "new"]
        assert {d.judged for d in stored} == {expected}, "the noisier store counts"
        texts = (difference.text(shown, 0.03, "a", "b"), ci.markdown(shown, [], 0.03, "a", "b", "", [], [], {}))
        assert all(("differs from itself by 8.0 % in CPU time" in text) == (twin > 1) for text in texts)


@pytest.mark.parametrize(("twin", "ruled_out"), [(1.0, "0.1 %"), (1.03, "3.0 %"), (1.08, "")])
def test_no_difference_below_the_floor_is_ruled_out(twin, ruled_out):
    experiment, runs = measured(1.0, twin)
    (said,) = [s for s in words.verdict(experiment, analyse(experiment, runs)) if "CPU time" in s]
    assert "no difference shown" in said and (f"one above {ruled_out} is ruled out" in said if ruled_out else "ruled out" not in said)


def test_a_report_lists_no_exception_below_the_floor():
    for twin, listed in ((1.06, False), (1.0, True)):
        experiment, runs = measured(0.8, twin)
        runs = [dataclasses.replace(r, metrics={**r.metrics, "cpu_s": 1.05}) if (r.program, r.variant) == ("p", "new") else r for r in runs]
        assert ("Worse for p 1.05" in " ".join(words.verdict(experiment, analyse(experiment, runs)))) == listed


def twinned(runs, time: float, space: float = 1.0):
    """The same with an A/A arm whose values are so many times as large."""
    return [dataclasses.replace(r, metrics={**r.metrics, "cpu_s": time * r.metrics["cpu_s"], "peak_mib": space * r.metrics["peak_mib"]}) if r.role == TWIN else r for r in runs]


@pytest.mark.parametrize(("new", "word"), [((1.17, 36.0, 60.0), "beats"), ((1.43, 44.0, 60.0), "loses to")])
def test_a_curve_wins_only_by_more_than_the_floor(new, word):
    experiment, runs = simulated_sweep(np.random.default_rng(3), {"old": (1.3, 40.0, 60.0), "new": new}, sigma=0.005, spikes=0)
    for twin, wins in ((1.01, True), (1.15, False)):
        said = " ".join(words.verdict(experiment, analyse(experiment, twinned(runs, twin))))
        assert (f"new {word} old" in said) == wins
        assert ("No winner is named" in said and "differs from itself by 15 %" in said) != wins


@pytest.mark.parametrize(("time", "space", "told"), [(1.0, 1.0, []), (1.1, 1.0, ["CPU time"]), (1.0, 1.1, ["peak memory"]), (1.1, 1.1, ["CPU time", "peak memory"])])
def test_a_baseline_that_differs_from_itself_is_warned_of_in_time_and_in_space(time, space, told):
    experiment, runs = measured(1.0, 1.0)
    own = twinned(runs, time, space)
    warned = words.warnings(experiment, own, analyse(experiment, own))
    assert [w.split(" in ")[1].split(" (the A/A arm)")[0] for w in warned if w.startswith("The baseline differs from itself by 10 %")] == told
    assert [w.split("interval of ")[1].split(" excludes 1 for p, q.")[0] for w in warned if w.startswith("The A/A arm's interval")] == told


def test_parameters_of_curves_differ_only_by_more_than_the_floor():
    """The baseline's second run differs by 15 % in time and by 30 % in space; the curves by 0.13 s without collection and 15 MiB."""
    experiment, runs = simulated_sweep(np.random.default_rng(3), {"old": (1.3, 40.0, 60.0), "new": (1.17, 40.0, 45.0)}, sigma=0.005, spikes=0)
    for time, space in ((1.0, 1.0), (1.15, 1.0), (1.0, 1.3)):
        said = " ".join(words.verdict(experiment, analyse(experiment, twinned(runs, time, space))))
        assert ("Without collection new would take" in said) == (time == 1.0) and ("No difference in the time without collection is shown" in said) == (time > 1.0)
        assert ("new's least space is" in said) == (space == 1.0)


def test_curves_that_cross_by_less_than_the_floor_are_not_said_to_cross():
    experiment, runs = simulated_sweep(np.random.default_rng(4), {"old": (1.35, 40.0, 60.0), "new": (1.45, 36.0, 60.0)}, sigma=0.003, spikes=0)
    for twin, crosses in ((1.001, True), (1.15, False)):
        assert analyse(experiment, twinned(runs, twin)).comparisons[0].crosses() == crosses


@pytest.mark.parametrize(("twin", "machines", "depends"), [(1.0, 5, True), (1.3, 5, False), (1.3, 2, True)])
def test_a_ratio_depends_on_the_machine_only_by_more_than_the_floor(twin, machines, depends):
    """But of two machines that contradict each other there is no common figure, and the report says why."""
    experiment, runs = measured(0.8, twin, blocks=8 * machines)
    runs = [dataclasses.replace(r, machine=f"m{r.block % machines}", metrics={**r.metrics, "cpu_s": r.metrics["cpu_s"] * (1.2 if r.variant == "new" and r.block % machines == 1 else 1)})
            for r in runs]
    analysis = analyse(experiment, runs)
    assert {s.differs for s in analysis.machines.spreads if s.metric == "cpu_s"} == {depends}
    assert any("depends on the machine" in s for s in words.verdict(experiment, analysis)) == depends


@pytest.mark.parametrize(("failed", "known"), [(("p",), True), (("p", "q"), False)])
def test_without_an_a_a_arm_there_is_no_verdict_and_the_report_says_why(failed, known):
    """Of two programs one A/A arm is enough."""
    experiment, runs = measured(0.5, 1.0, {"ratio": 0.9, "amount": 0.0})
    runs = [dataclasses.replace(r, state="crashed") if r.role == TWIN and r.program in failed else r for r in runs]
    analysis = analyse(experiment, runs)
    said, warned = " ".join(words.verdict(experiment, analysis)), " ".join(words.warnings(experiment, runs, analysis))
    assert ("which is better" in said) == known and ("no A/A arm says how far the baseline differs from itself, so there is no verdict" in said) != known
    assert ("No A/A arm says how far the baseline differs from itself in CPU time" in warned) != known and "∞" not in said + warned
    assert {(a.contrast, a.program): a.judged for a in analysis.answers if a.program} == {
        ("ratio", "p"): MET if known else OPEN, ("ratio", "q"): MET if known else OPEN, ("amount", "p"): OPEN, ("amount", "q"): MET if known else OPEN}
    (shown,) = {d.judged for d in within(experiment, runs, ["cpu_s"], 0.03)}
    assert shown == (BETTER if known else UNDECIDED)
    text = difference.text(within(experiment, runs, ["cpu_s"], 0.03), 0.03, "a", "b")
    assert ("No A/A arm says how far the baseline differs from itself in CPU time" in text) != known and "∞" not in text


@pytest.mark.parametrize(("left", "known"), [(1, False), (4, False), (5, True)])
def test_an_a_a_arm_of_few_blocks_says_nothing(left, known):
    experiment, runs = measured(0.5, 1.0, {"ratio": 0.9, "amount": 0.0})
    runs = [dataclasses.replace(r, state="crashed") if r.role == TWIN and r.block >= left else r for r in runs]
    analysis = analyse(experiment, runs)
    assert ("which is better" in " ".join(words.verdict(experiment, analysis))) == known
    assert {a.judged for a in analysis.answers if a.program} == {MET if known else OPEN}
    assert {d.judged for d in within(experiment, runs, ["cpu_s"], 0.03)} == {BETTER if known else UNDECIDED}


def test_what_is_said_of_two_curves_beside_a_p_obeys_the_floor():
    """The table, the record and the sentence about a."""
    experiment, runs = simulated_sweep(np.random.default_rng(3), {"old": (1.3, 40.0, 60.0), "new": (1.17, 36.0, 60.0)}, sigma=0.005, spikes=0)
    for twin, noisy in ((1.01, False), (1.15, True)):
        content = page.build(experiment, {"contenders": {}}, own := twinned(runs, twin), analyse(experiment, own))
        rows = {row[0]: row[1] for t in content.tables if t.name == "comparison-p-new" for row in t.rows}
        for name in ("faster at every common space", "the same by at least 2 %", "slower at every common space"):
            assert ("no verdict, as the baseline differs from itself by 15 %" in rows[name]) == noisy
        assert json.loads(record.as_json(content))["curves"][0]["within_noise"] == noisy
        assert ("; the baseline differs from itself by 15 %)" in " ".join(content.verdict)) == noisy


def test_it_is_said_which_of_time_and_space_has_no_a_a_arm():
    experiment, runs = measured(0.5, 1.0)
    for lost, told in (("cpu_s", "CPU time"), ("peak_mib", "peak memory")):
        own = [dataclasses.replace(r, metrics={k: v for k, v in r.metrics.items() if k != lost or r.role != TWIN}) for r in runs]
        assert any(f"differs from itself in {told}, so there are no verdicts on that" in w for w in words.warnings(experiment, own, analyse(experiment, own)))
    alone = [r for r in runs if r.role != TWIN]
    assert any("differs from itself in CPU time and peak memory, so" in w for w in words.warnings(experiment, alone, analyse(experiment, alone)))


def test_a_curve_wins_only_with_an_a_a_arm():
    experiment, runs = simulated_sweep(np.random.default_rng(3), {"old": (1.3, 40.0, 60.0), "new": (1.17, 36.0, 60.0)}, sigma=0.005, spikes=0)
    said = " ".join(words.verdict(experiment, analyse(experiment, [r for r in runs if r.role != TWIN])))
    assert "No winner is named" in said and "but no A/A arm says how far the baseline differs from itself." in said and "∞" not in said
