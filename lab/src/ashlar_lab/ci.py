"""What `ashlar-lab ci` does: check out and build, measure, judge by intervals, say so."""

from __future__ import annotations

import contextlib
import dataclasses
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ashlar_lab.errors import BadInput
from ashlar_lab.experiment.check import checked
from ashlar_lab.experiment.model import Experiment, Variant
from ashlar_lab.fit.analysis import analyse
from ashlar_lab.fit.difference import UNDECIDED, WORSE, Difference, differences, within
from ashlar_lab.measure import machine, revisions
from ashlar_lab.measure.session import measure
from ashlar_lab.report import ci as comments
from ashlar_lab.report import page, units
from ashlar.files import file_name, put
from ashlar.said import say
from ashlar_lab.store import Store
from ashlar_lab.store.database import read_all, refuse_unlike
from ashlar_lab.store.run import OK


def judge(experiment: Experiment, *, base: str | None, stored: Path | None, head: str, build: str | None, save: Path | None, threshold: float,
          metrics: Sequence[str] | None, strict: bool, comment: Path | None, store_path: Path | None, quiet: bool) -> int:
    """Returns the exit status."""
    if threshold < 0:
        raise BadInput(f"--threshold {threshold} is negative; give a fraction such as 0.05")
    if base and stored:
        raise BadInput("--base measures the older revision and --baseline reads it from a file; give one of them")
    if not (base or stored or save):
        raise BadInput("nothing to compare with; give --base REVISION, or --baseline FILE, or --save FILE to make a baseline")
    if stored:
        before = read_all([stored])
        refuse_unlike(before[1], machine.describe(), f"cannot compare with {stored}")
    if store_path:
        Store.check_can_create(store_path)
    if save:
        Store.check_can_replace(save)
    told = (lambda text: None) if quiet else (lambda text: say(text, error=True))
    with contextlib.ExitStack() as scratch, revisions.checked_out([*([base] if base else []), head], build, told) as found:
        names = [r.name if r.name not in [o.name for o in found if o is not r] else f"{r.name}-{i}" for i, r in enumerate(found)]
        contenders = tuple(Variant(file_name(n, "revision")[:50], "env", directory=str(r.folder)) for n, r in zip(names, found))
        if not base:  # one contender: its name and its folder are no part of what is measured, so that baselines match
            contenders = (dataclasses.replace(contenders[0], name="head"),)
        chosen = dataclasses.replace(experiment, variants=contenders, baseline=contenders[0].name)
        # A folder of this moment must not be what tells two experiments apart.
        chosen = checked(dataclasses.replace(chosen, programs=tuple(dataclasses.replace(p, directory=None) for p in chosen.programs)), "ashlar-lab ci")
        path = store_path or Path(scratch.enter_context(tempfile.TemporaryDirectory())) / "ci.ashlar"
        if not measure(chosen, path, quiet=quiet):
            raise KeyboardInterrupt
        _, here, runs = read_all([path])
        judged = _Judged(chosen, here, runs, found[-1], found[0] if base else None)
        if save and not judged.failures:  # whole and at once: an interrupted or broken baseline must not take the place of a good one
            put(save, path.read_bytes())
    if not base and not stored:
        if judged.failures:
            say(f"nothing is stored in {save}: {judged.failures[0]}", error=True)
            return 1
        say(f"stored {units.number(judged.analysis.blocks)} blocks of {found[-1].name} ({found[-1].short}) in {save}", error=True)
        return 0
    if stored:
        _refuse_other_work(before[0], chosen, stored)
        shown = differences(chosen, _renamed(before[2]), runs, metrics, threshold, False)
        levels = judged.levels(shown, analyse(chosen, _renamed(before[2])), "head")
    else:
        shown = within(chosen, runs, metrics, threshold)
        levels = judged.levels(shown, judged.analysis, contenders[0].name)
    if not shown and not judged.failures:
        known = ", ".join(judged.analysis.metrics)
        raise BadInput(f"no metric to judge; {'these programs have ' + known if known else 'nothing was measured'}")
    text = comments.markdown(shown, judged.failures, threshold, found[0].short if base else stored.name, found[-1].short, judged.facts(), judged.warnings(), judged.machine(), levels)
    say(text, end="")
    if comment:
        put(comment, text)
    return _status(shown, judged.failures, strict)


def _status(shown: Sequence[Difference], failures: Sequence[str], strict: bool) -> int:
    if failures or any(d.judged == WORSE for d in shown):
        return 1
    return 3 if strict and any(d.judged == UNDECIDED for d in shown) else 0


def _renamed(runs):
    return [dataclasses.replace(r, variant="head") for r in runs if r.role != "check"]


def _refuse_other_work(before: Experiment, now: Experiment, path: Path) -> None:
    """A baseline of other programs, or of programs that were run otherwise, says nothing."""
    def work(e: Experiment):
        return sorted((p.name, p.command, sorted(p.environment.items()), p.server) for p in e.programs)

    if work(before) != work(now):
        raise BadInput(f"{path} was measured with other programs ({', '.join(p.name for p in before.programs)}) or options; make it again with --save")


class _Judged:
    """What was measured, as the comment needs it."""

    def __init__(self, experiment: Experiment, here: dict, runs, head: revisions.Revision, base: revisions.Revision | None):
        self.experiment, self.runs = experiment, runs
        self.analysis = analyse(experiment, runs)
        self.page = page.build(experiment, here, runs, self.analysis)
        self.head = experiment.variants[-1].name
        bad = [r for r in runs if r.variant == self.head and r.state != OK]
        self.failures = [f"{count} of {len([r for r in runs if r.program == program and r.variant == self.head])} runs of {program} on {head.name}: {reason}"
                         for program, reason, count in _counted(bad)]

    def levels(self, shown: Sequence[Difference], of_base, base: str) -> dict[tuple[str, str], tuple[str, str]]:
        def value(analysis, program: str, variant: str, metric: str) -> str:
            level = analysis.level(program, variant, metric)
            return units.number(level.mean.value) if level else "–"

        return {(d.program, d.metric): (value(of_base, d.program, base, d.metric), value(self.analysis, d.program, self.head, d.metric)) for d in shown}

    def facts(self) -> str:
        return f"{self.analysis.blocks} blocks, {self.analysis.runs} runs."

    def warnings(self) -> tuple[str, ...]:
        return self.page.warnings

    def machine(self) -> list[tuple[str, str]]:
        return [(k, v) for k, v in self.page.machine if k in ("cpu", "cpus", "memory gib", "kernel", "libc", "system", "time", "other processes")]


def _counted(bad) -> list[tuple[str, str, int]]:
    found: dict[tuple[str, str], int] = {}
    for run in bad:
        found[run.program, run.reason] = found.get((run.program, run.reason), 0) + 1
    return [(program, reason, count) for (program, reason), count in found.items()]
