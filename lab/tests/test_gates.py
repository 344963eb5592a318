"""What was asked and has no figure is undecided and is said; a gate that left it out would let it pass."""

import dataclasses

import pytest
from conftest import make_run, two_variants

from ashlar.errors import BadInput
from ashlar_lab.experiment.check import checked
from ashlar_lab.experiment.model import Contrast, Server
from ashlar_lab.fit.analysis import analyse
from ashlar_lab.fit.contrasts import OPEN
from ashlar_lab.fit.difference import SAME, UNDECIDED, WORSE, differences, failures, within
from ashlar_lab.report import ci, contrasts, difference, page
from ashlar_lab.store.database import Store

RATIO, AMOUNT = Contrast("ratio", "gc_count", "new", "old"), Contrast("amount", "gc_count", "new", "old", difference=True)
BROKEN = {"state": "crashed", "reason": "it ended with exit status 1"}
MACHINE = {"architecture": "x", "cpu": "y", "cpus": 2, "memory_gib": 4, "kernel": "1", "libc": "glibc 2"}


def measured(blocks: int = 6, new: dict = {}, **rest):
    """`new` is what its runs have of their own; runs of the baseline report a figure."""
    experiment = two_variants(**rest)
    told = {"metrics": {"gc_count": 5.0}, "told": ("gc_count",)}
    return experiment, [make_run(b, arm.program, arm.variant, None, 1 + b / 1000, 100, arm.role, **(told if arm.variant == experiment.baseline else new))
                        for b in range(blocks) for arm in experiment.arms()]


def stored(path, experiment, runs):
    with Store.create(path, experiment, MACHINE) as store:
        store.add(*runs)
    return path


def test_a_metric_without_a_ratio_is_undecided_and_said_to_be_missing():
    experiment, runs = measured()
    found = within(experiment, runs, ["cpu_s", "gc_count"], 0.05)
    assert [(d.metric, d.judged, d.ratio.n) for d in found] == [("cpu_s", SAME, 6), ("gc_count", UNDECIDED, 0)]
    apart = differences(experiment, runs, runs, ["gc_count"], 0.05, False)
    assert {(d.variant, d.judged, d.ratio.n) for d in apart} == {("old", SAME, 6), ("new", UNDECIDED, 0)}
    for text in (difference.text(apart, 0.05, "a", "b"), ci.markdown(found, [], 0.05, "a", "b", "", [], [], {})):
        assert "not measured" in text and "undecided" in text
    assert "undecided figures were not measured." in ci.verdict(found, [], 0.05)
    assert "one of the two has no value" in difference.text(apart, 0.05, "a", "b") and "needs more blocks" not in difference.text(apart, 0.05, "a", "b")


def test_the_time_and_space_that_one_store_lacks_are_undecided():
    experiment, runs = measured(time_metric="p50_ms")
    assert {(d.metric, d.judged) for d in within(experiment, runs, None, 0.05)} == {("p50_ms", UNDECIDED), ("peak_mib", SAME)}


def test_what_a_second_store_does_not_have_is_undecided():
    (first, runs), (second, later) = measured(programs=("p", "q")), measured(programs=("p",))
    found = differences(first, runs, later, ["cpu_s"], 0.05, False, second)
    assert {(d.program, d.variant): d.judged for d in found} == {("p", "old"): SAME, ("p", "new"): SAME, ("q", "old"): UNDECIDED, ("q", "new"): UNDECIDED}


@pytest.mark.parametrize("relative", [False, True])
def test_what_ran_and_only_fails_now_is_worse_and_says_why(relative):
    (experiment, runs), (_, broken) = measured(), measured(new=BROKEN)
    found = {d.variant: d for d in differences(experiment, runs, broken, ["cpu_s"], 0.05, relative)}
    assert (found["new"].judged, found["new"].failed) == (WORSE, "6 of 6 runs of p · new: it ended with exit status 1")
    assert "after: 6 of 6 runs of p · new: it ended with exit status 1." in difference.text(list(found.values()), 0.05, "before", "after")
    back = {d.variant: d.judged for d in differences(experiment, broken, runs, ["cpu_s"], 0.05, relative)}
    assert back["new"] == UNDECIDED, "what failed before has nothing to be compared with"


@pytest.mark.parametrize("relative", [False, True])
@pytest.mark.parametrize(("before", "now", "verdict", "told"), [(6, 5, WORSE, "1 of 6 runs of p · new"), (6, 1, WORSE, "5 of 6"), (5, 0, WORSE, "6 of 6"),
                                                              (5, 5, SAME, "1 of 6"), (0, 5, UNDECIDED, "1 of 6"), (6, 6, SAME, "")])
def test_runs_that_fail_where_none_did_are_worse_and_others_are_told(before, now, verdict, told, relative):
    """Of six runs so many succeed."""
    experiment, runs = measured()
    some = {n: [dataclasses.replace(r, **BROKEN) if r.variant == "new" and r.block >= n else r for r in runs] for n in (before, now)}
    found = [d for d in differences(experiment, some[before], some[now], ["cpu_s"], 0.05, relative) if d.variant == "new"]
    assert [d.judged for d in found] == [verdict]
    text = difference.text(found, 0.05, "before", "after")
    assert (f"after: {told}" in text and "it ended with exit status 1" in text) if told else "runs of" not in text


def test_a_baseline_that_only_fails_now_is_worse_in_what_is_relative_to_it():
    experiment, runs = measured()
    broken = [dataclasses.replace(r, **BROKEN) if r.variant == "old" else r for r in runs]
    (found,) = differences(experiment, runs, broken, ["cpu_s"], 0.05, True)
    assert found.judged == WORSE and "6 of 6 runs of p · old" in found.failed


def test_failures_are_counted_by_name_and_reason():
    _, runs = measured(new=BROKEN)
    runs[1] = dataclasses.replace(runs[1], reason="another")
    assert sorted(failures(runs, lambda arm: arm.program)) == ["1 of 18 runs of p: another", "5 of 18 runs of p: it ended with exit status 1"]
    assert failures(runs, lambda arm: None) == failures([], lambda arm: "x") == []


def test_diff_fails_for_runs_that_fail_and_refuses_a_metric_that_nobody_has(ashlar, tmp_path):
    first, second = stored(tmp_path / "a.ashlar", *measured()), stored(tmp_path / "b.ashlar", *measured(new=BROKEN))
    done = ashlar("diff", first, second)
    assert done.returncode == 1 and "6 of 6 runs of p · new: it ended with exit status 1" in done.stdout and "not measured" in done.stdout
    assert ashlar("diff", first, first).returncode == 0
    for metric, status in (("nonsense", 2), ("gc_count", 0)):
        done = ashlar("diff", first, first, "--metric", metric)
        assert done.returncode == status
        assert f"no run of {first} has the metric 'nonsense'; give some of cpu_s, gc_count, peak_mib, wall_s" in done.stderr or status == 0
    done = ashlar("diff", first, stored(tmp_path / "d.ashlar", experiment := measured()[0], broken_in(experiment, 5)))
    assert done.returncode == 1 and "1 of 6 runs of p · new" in done.stdout
    other = stored(tmp_path / "c.ashlar", *measured(names=("left", "right")))
    done = ashlar("diff", first, other)
    assert done.returncode == 2 and "have no arm and metric in common" in done.stderr


def broken_in(experiment, *blocks):
    return [dataclasses.replace(r, **BROKEN) if r.variant == "new" and r.block in blocks else r for r in measured()[1]]


@pytest.mark.parametrize(("change", "said"), [({"command": ("true", "b.py")}, "p has the command true in one and true b.py in the other"),
                                              ({"environment": {"A": "1"}}, "p has the environment {} in one and {'A': '1'} in the other"),
                                              ({"server": Server(0, 100)}, "p has the server None in one and {'port': 0"),
                                              ({"ignore_lines": ("took",)}, "p has the ignored output none in one and took in the other"),
                                              ({"compare_output": False}, "p has the ignored output none in one and all in the other")])
def test_other_work_under_the_same_name_is_not_compared(ashlar, tmp_path, change, said):
    experiment, runs = measured()
    other = dataclasses.replace(experiment, programs=tuple(dataclasses.replace(p, **change) for p in experiment.programs))
    done = ashlar("diff", stored(tmp_path / "a.ashlar", experiment, runs), stored(tmp_path / "b.ashlar", other, runs))
    assert done.returncode == 2 and said in done.stderr and done.stderr.count("\n") == 1 and not done.stdout
    changed = dataclasses.replace(experiment, variants=tuple(dataclasses.replace(v, environment={"BUILD": "2"}) for v in experiment.variants))
    assert ashlar("diff", tmp_path / "a.ashlar", stored(tmp_path / "c.ashlar", changed, runs)).returncode == 0, "what a variant is may change"


def test_a_program_that_prints_something_else_is_worse(ashlar, tmp_path):
    experiment, runs = measured()
    first, same, other = (stored(tmp_path / f"{i}.ashlar", experiment, [dataclasses.replace(r, checksum=said * 64) for r in runs]) for i, said in enumerate("aab"))
    done = ashlar("diff", first, other)
    assert done.returncode == 1 and f"\n{other}: p prints something else than before.\n" in done.stdout
    assert ashlar("diff", first, same).returncode == 0
    assert ashlar("diff", first, stored(tmp_path / "ignored.ashlar", experiment, runs)).returncode == 0, "what is not known is not compared"


def test_runs_in_turns_and_others_are_not_compared(ashlar, tmp_path):
    experiment, runs = measured()
    done = ashlar("diff", stored(tmp_path / "a.ashlar", experiment, runs), stored(tmp_path / "b.ashlar", dataclasses.replace(experiment, turns_s=0.5), runs))
    assert done.returncode == 2 and "p has the turns None in one and 0.5 in the other" in done.stderr


def test_machines_are_compared_by_name_and_must_be_the_same(ashlar, tmp_path):
    """Whichever of them a store was begun on."""
    quick, slow, newer = MACHINE, {**MACHINE, "cpu": "slow"}, {**MACHINE, "cpu": "newer"}
    experiment, runs = measured(blocks=10)
    runs = [dataclasses.replace(r, machine=f"m{r.block % 2}") for r in runs]

    def of_fleet(name, begun, *facts):
        with Store.create(tmp_path / name, experiment, begun) as store:
            for i, own in enumerate(facts):
                store.add_machine(f"m{i}", own)
            store.add(*runs)
        return tmp_path / name

    first = of_fleet("a.ashlar", quick, quick, slow)
    assert ashlar("diff", first, of_fleet("b.ashlar", slow, quick, slow)).returncode == 0
    done = ashlar("diff", first, of_fleet("c.ashlar", quick, quick, newer))
    assert done.returncode == 2 and "it has another machine called m1: the machines differ in cpu ('slow' against 'newer')" in done.stderr and not done.stdout


def test_a_goal_without_a_figure_is_open():
    experiment, runs = measured(programs=("p", "q"), contrasts=(RATIO, AMOUNT), headline=("contrasts",))
    programs = (dataclasses.replace(experiment.programs[0], goals={RATIO.name: 0.9, AMOUNT.name: 0.0}), experiment.programs[1])
    experiment = dataclasses.replace(experiment, programs=programs)
    analysis = analyse(experiment, runs)
    assert [(a.contrast, a.program, a.judged, a.estimate.n) for a in analysis.answers] == [("ratio", "p", OPEN, 0), ("amount", "p", OPEN, 0)]
    assert contrasts.table(experiment, analysis).rows == (("p", "not measured", "0.90 ?", "not measured", "0.00 ?"),)
    assert "not measured" in str([t.rows for t in page.build(experiment, {"contenders": {}}, runs, analysis).headline()])


def test_a_goal_for_variants_with_a_knob_is_refused():
    asked = dataclasses.replace(RATIO, metric="cpu_s")
    experiment = two_variants(values=(1, 2), contrasts=(asked,))
    assert checked(experiment, "e.toml") == experiment, "a contrast alone asks for no verdict"
    wanted = dataclasses.replace(experiment, programs=(dataclasses.replace(experiment.programs[0], goals={"ratio": 0.9}),))
    with pytest.raises(BadInput, match="e.toml: p has a goal for 'ratio', and new has a knob: curves compare variants with a knob; leave out the goal"):
        checked(wanted, "e.toml")
