"""What `ashlar-lab ci` does: check out and build, measure, judge by intervals, say so."""

import contextlib
import dataclasses
import tempfile
from pathlib import Path

from ashlar.errors import BadInput
from ashlar.files import file_name, put
from ashlar.said import say
from ashlar_lab.errors import BaselineFails
from ashlar_lab.experiment.check import checked
from ashlar_lab.experiment.model import Experiment, Variant
from ashlar_lab.fit.analysis import analyse
from ashlar_lab.fit.difference import UNDECIDED, WORSE, differences, failures, within
from ashlar_lab.measure import machine, revisions
from ashlar_lab.measure.session import measure
from ashlar_lab.options import Judgement
from ashlar_lab.report import ci as comments
from ashlar_lab.report import page, units
from ashlar_lab.store.database import Store, read_all, refuse_unknown, refuse_unlike
from ashlar_lab.store.table import Table, other_outputs

# What the comment says of the machine.
_MACHINE = ("cpu", "cpus", "memory gib", "kernel", "libc", "system", "time", "other processes")


def judge(asked: Judgement) -> int:
    """Returns the exit status."""
    experiment = dataclasses.replace(asked, variant=["head=env"]).described()
    if asked.base and asked.stored:
        raise BadInput("--base measures the older revision and --baseline reads it from a file; give one of them")
    if asked.base and asked.save:
        raise BadInput("--base measures two revisions, and --save stores one as a baseline; give one of them")
    if not (asked.base or asked.stored or asked.save):
        raise BadInput("nothing to compare with; give --base REVISION, or --baseline FILE, or --save FILE to make a baseline")
    if asked.stored:
        before = read_all([asked.stored])
        refuse_unlike(before[1], machine.describe(), f"cannot compare with {asked.stored}")
        refuse_unknown(asked.metric, before[2], str(asked.stored))
        if len(before[0].variants) > 1 or before[0].sweeps():
            raise BadInput(f"{asked.stored} holds several variants or settings, and a baseline is one revision; make it again with --save")
    if asked.store:
        Store.check_can_create(asked.store)
    if asked.save and asked.save.exists():
        Store.open(asked.save).__exit__()  # what is replaced must be a store
    elif asked.save:
        Store.check_can_create(asked.save)
    tell = (lambda text: None) if asked.quiet else (lambda text: say(text, error=True))
    with contextlib.ExitStack() as scratch, revisions.checked_out([*([asked.base] if asked.base else []), asked.head], asked.build, tell) as found:
        names = [r.name if r.name not in [o.name for o in found if o is not r] else f"{r.name}-{i}" for i, r in enumerate(found)]
        contenders = tuple(Variant(file_name(n, "revision")[:50], "env", directory=str(r.folder)) for n, r in zip(names, found))
        if not asked.base:  # one contender: its name and its folder are no part of what is measured, so that baselines match
            contenders = (dataclasses.replace(contenders[0], name="head"),)
        chosen = dataclasses.replace(experiment, variants=contenders, baseline=contenders[0].name)
        # A folder of this moment must not be what tells two experiments apart.
        chosen = checked(dataclasses.replace(chosen, programs=tuple(dataclasses.replace(p, directory=None) for p in chosen.programs)), "ashlar-lab ci")
        path = asked.store or Path(scratch.enter_context(tempfile.TemporaryDirectory())) / "ci.ashlar"
        try:
            if not measure(chosen, path, quiet=asked.quiet):
                raise KeyboardInterrupt
        except BaselineFails as error:
            if asked.base:
                raise
            return _head_fails(asked, found[-1], f"{error.run.program} on {found[-1].name}: {error.run.reason}")
        _, here, runs = read_all([path])
        analysis, own = analyse(chosen, runs), contenders[-1].name
        failing = failures(runs, lambda arm: f"{arm.program} on {found[-1].name}" if arm.variant == own else None)
        if asked.stored:
            failing += other_outputs(Table.of(before[2]).outputs(), Table.of(runs).outputs()).values()
        if asked.save and not failing:  # whole and at once: an interrupted or broken baseline must not take the place of a good one
            put(asked.save, path.read_bytes())
    if not asked.base and not asked.stored:
        if failing:
            return _head_fails(asked, found[-1], failing[0])
        say(f"stored {units.number(analysis.blocks)} blocks of {found[-1].name} ({found[-1].short}) in {asked.save}", error=True)
        return 0
    if not failing:
        refuse_unknown(asked.metric, runs, found[-1].name)
    if asked.stored:
        _refuse_other_work(before[0], chosen, asked.stored)
        older = before[2]
        older.table.arms = [arm._replace(variant="head") for arm in older.table.arms]  # its one variant may have another name
        shown, of_base = differences(chosen, older, runs, asked.metric, asked.threshold, False), (analyse(chosen, older), "head")
    else:
        shown, of_base = within(chosen, runs, asked.metric, asked.threshold), (analysis, contenders[0].name)
    told = page.build(chosen, here, runs, analysis)
    levels = {(d.program, d.metric): tuple(units.level(a.level(d.program, variant, d.metric)) for a, variant in (of_base, (analysis, own))) for d in shown}
    text = comments.markdown(shown, failing, asked.threshold, found[0].short if asked.base else asked.stored.name, found[-1].short, f"{analysis.blocks} blocks, {analysis.runs} runs.",
                             told.warnings, [(k, v) for k, v in told.machine if k in _MACHINE], levels, at_once=not asked.stored)
    _comment(asked, text)
    if failing or any(d.judged == WORSE for d in shown):
        return 1
    return 3 if asked.strict and any(d.judged == UNDECIDED for d in shown) else 0


def _head_fails(asked: Judgement, head: revisions.Revision, why: str) -> int:
    """The exit status where there is nothing to be judged or stored."""
    if asked.stored:
        _comment(asked, comments.markdown([], [why], asked.threshold, asked.stored.name, head.short, "Nothing was measured.", [], [], {}))
    else:
        say(f"nothing is stored in {asked.save}: {why}", error=True)
    return 1


def _comment(asked: Judgement, text: str) -> None:
    say(text, end="")
    if asked.markdown:
        put(asked.markdown, text)


def _refuse_other_work(before: Experiment, now: Experiment, path: Path) -> None:
    """A baseline of other programs, or of programs that were run otherwise, says nothing."""
    if before.other_work(now) or {p.name for p in before.programs} != {p.name for p in now.programs}:
        raise BadInput(f"{path} was measured with other programs ({', '.join(p.name for p in before.programs)}) or options; make it again with --save")
