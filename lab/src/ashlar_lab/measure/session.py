"""The whole measurement: check runs, then shuffled blocks until the stopping rule says enough."""

import time
from pathlib import Path

from ashlar.errors import BadInput
from ashlar_lab.experiment.model import Experiment
from ashlar_lab.fit.precision import enough
from ashlar_lab.measure import checks, machine
from ashlar_lab.measure.block import groups, run_group
from ashlar_lab.measure.progress import Progress
from ashlar_lab.measure.run import learn
from ashlar_lab.store.database import Store, refuse_unlike


def measure(experiment: Experiment, store_path: Path, resume: bool = False, quiet: bool = False) -> bool:
    """Measure the experiment into a store. False when Ctrl-C ended it early; every finished run is kept then, of runs in turns every finished group, but
    `resume` begins a block that is not whole anew.
    Before the store exists there is nothing to keep, and KeyboardInterrupt is raised on."""
    here = machine.describe()
    if resume:
        store = Store.open(store_path)
        if store.machines():
            raise BadInput(f"{store_path} has runs of several machines ({', '.join(sorted(store.machines()))}); go on with --on SCHEDULER, or with "
                           "--on local:1 on this one")
        refuse_unlike(store.machine(), here, f"cannot resume {store_path}")
        checks.refuse_more_than_fits(experiment, store.runs("block < 0"))
        store.update_experiment(experiment)
        store.drop_blocks_below(len(experiment.arms()))  # the rest of such a block would meet another hour of the machine
    else:
        checked = []
        with Progress(experiment, quiet) as progress:
            for run in checks.check_runs(experiment, {}, progress.starts):
                checked.append(run)
                progress.ended(run)
        checks.refuse_more_than_fits(experiment, checked)
        store = Store.create(store_path, experiment, {**here, "contenders": checks.contenders(experiment)})
        store.add(*checked)
    with store, Progress(experiment, quiet) as progress:
        try:
            _run_blocks(experiment, store, progress)
        except KeyboardInterrupt:
            return False
    return True


def _run_blocks(experiment: Experiment, store: Store, progress: Progress) -> None:
    runs = store.runs()
    done = {(r.block, *r.arm) for r in runs}
    expected: dict[str, str] = {}
    for run in runs:
        learn(expected, run, experiment.baseline)
    spent = sum(r.metrics.get("wall_s", 0) for r in runs if r.block >= 0)
    started = time.monotonic() - spent
    progress.count(*runs)
    for block in range(experiment.stop.blocks_max):
        for group in groups(experiment, block):
            if all((block, *arm) in done for _, arm in group):
                continue
            if block >= 1 and experiment.stop.over_budget(time.monotonic() - started):
                return
            progress.starts([arm for _, arm in group], f"block {block + 1} of at most {experiment.stop.blocks_max}")
            ran = run_group(experiment, group, block, expected)
            store.add(*ran)
            runs += ran
            for run in ran:
                progress.ended(run)
        if block + 1 >= experiment.stop.blocks_min and enough(experiment, runs):
            return
