"""The whole measurement: check runs, then shuffled blocks until the stopping rule says enough."""

from __future__ import annotations

import time
from pathlib import Path

from ashlar_lab.errors import BadInput
from ashlar_lab.experiment.model import CHECK, Arm, Experiment
from ashlar_lab.fit.precision import precise_enough
from ashlar_lab.measure import machine
from ashlar_lab.measure.progress import Progress
from ashlar_lab.measure.run import run_arm
from ashlar_lab.store import Run, Store
from ashlar_lab.store.database import refuse_unlike
from ashlar_lab.store.run import OK, WRONG_LIBRARY

# Under both of these a run is mostly the start of a process. Two numbers, because on a busy machine even `true`
# takes a while, and because a command may do its work by waiting.
_SHORTEST_CPU_S, _SHORTEST_WALL_S = 0.010, 0.050


def measure(experiment: Experiment, store_path: Path, resume: bool = False, quiet: bool = False) -> bool:
    """Measure the experiment into a store. False when Ctrl-C ended it early; every finished run is kept then.
    Before the store exists there is nothing to keep, and KeyboardInterrupt is raised on."""
    here = machine.describe()
    if resume:
        store = Store.open(store_path)
        refuse_unlike(store.machine(), here, f"cannot resume {store_path}")
        store.update_experiment(experiment)
    else:
        Store.check_can_create(store_path)
        with Progress(experiment, quiet) as progress:
            checks = _check_runs(experiment, progress) if experiment.check else []
        store = Store.create(store_path, experiment, {**here, "contenders": _contenders(experiment)})
        for run in checks:
            store.add(run)
    with store, Progress(experiment, quiet) as progress:
        try:
            _run_blocks(experiment, store, progress)
        except KeyboardInterrupt:
            return False
    return True


def _check_runs(experiment: Experiment, progress: Progress) -> list[Run]:
    """Every program once under every variant, traced: does it work, is it long enough, is the library loaded?"""
    runs: list[Run] = []
    arms = [Arm(p.name, v.name, v.middle_value(), CHECK) for p in experiment.programs
            for v in sorted(experiment.variants, key=lambda v: v.name != experiment.baseline)]
    expected: dict[str, str] = {}
    for position, arm in enumerate(arms):
        progress.starts(arm, f"check {position + 1} of {len(arms)}")
        run = run_arm(experiment, arm, -1, position, expected.get(arm.program))
        if run.state == OK and run.checksum and arm.variant == experiment.baseline:
            expected[arm.program] = run.checksum
        if run.state == WRONG_LIBRARY:
            raise BadInput(f"{arm.label()}: {run.reason}")
        if run.state != OK and arm.variant == experiment.baseline:
            told = f" It wrote: {run.errors_tail.splitlines()[-1]}" if run.errors_tail else ""
            raise BadInput(f"{arm.label()}: the baseline fails, {run.reason}.{told}")
        if run.state == OK and run.metrics["wall_s"] < _SHORTEST_WALL_S and run.metrics["cpu_s"] < _SHORTEST_CPU_S:
            raise BadInput(f"{arm.label()} ends after {run.metrics['wall_s'] * 1000:.1f} ms, too soon to compare anything; "
                           "give it more work, half a second or more")
        runs.append(run)
        progress.ended(arm, run)
    return runs


def _contenders(experiment: Experiment) -> dict[str, dict]:
    """What each variant really is: executable, version, package of its library."""
    from ashlar_lab import variants

    found = {}
    for variant in experiment.variants:
        starts = [variants.start_of(experiment, p, variant, variant.middle_value()) for p in experiment.programs]
        executables = {s.command[0]: machine.version_of(s.command[0], p.directory) for s, p in zip(starts, experiment.programs)}
        found[variant.name] = {
            "executables": executables,
            "library": variant.preload,
            "package": machine.package_of(variant.preload) if variant.preload else None,
        }
    return found


def _run_blocks(experiment: Experiment, store: Store, progress: Progress) -> None:
    runs = store.runs()
    done = {(r.block, *r.arm) for r in runs}
    expected = _expected_checksums(experiment, runs)
    spent = sum(r.metrics.get("wall_s", 0) for r in runs if r.block >= 0)
    started = time.monotonic() - spent
    progress.resumed(runs)
    for block in range(experiment.stop.blocks_max):
        for position, arm in enumerate(experiment.order(block)):
            if (block, arm.program, arm.variant, arm.value, arm.role) in done:
                continue
            if _budget_spent(experiment, started) and block >= 1:
                return
            progress.starts(arm, f"block {block + 1} of at most {experiment.stop.blocks_max}")
            run = run_arm(experiment, arm, block, position, expected.get(arm.program))
            store.add(run)
            runs.append(run)
            progress.ended(arm, run)
            if run.state == OK and run.checksum and arm.variant == experiment.baseline:
                expected.setdefault(arm.program, run.checksum)
        if block + 1 >= experiment.stop.blocks_min and precise_enough(experiment, runs):
            return


def _expected_checksums(experiment: Experiment, runs: list[Run]) -> dict[str, str]:
    expected: dict[str, str] = {}
    for run in runs:
        if run.state == OK and run.checksum and run.variant == experiment.baseline:
            expected.setdefault(run.program, run.checksum)
    return expected


def _budget_spent(experiment: Experiment, started: float) -> bool:
    return experiment.stop.budget_s is not None and time.monotonic() - started > experiment.stop.budget_s
