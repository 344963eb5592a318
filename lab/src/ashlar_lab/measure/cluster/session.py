"""Give the blocks of an experiment to a cluster, as many at a time as machines are free, and store each as it comes.

A block is measured whole on one machine, and is in the store whole or not at all. So what the store has is all there is to go on from:
`--resume` gives out the blocks that it lacks.
"""

import contextlib
import dataclasses
import socket
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ashlar.errors import BadInput
from ashlar_lab.errors import Unfinished
from ashlar_lab.experiment.model import Experiment
from ashlar_lab.fit.precision import enough
from ashlar_lab.measure.cluster.engine import Cluster
from ashlar_lab.measure.cluster.parcel import Parcel, packed
from ashlar_lab.measure.cluster.security import check_address
from ashlar_lab.measure.progress import FleetProgress
from ashlar_lab.measure.run import learn
from ashlar_lab.store.database import Store
from ashlar_lab.store.run import Run

_LOOK_EVERY_S = 2.0
# How long a scheduler without a single worker is waited for.
_PATIENCE_S = 30.0
# How long machines that are all gone are waited for, once one took part: those of a batch system come back.
_RETURN_S = 300.0


def measure_on(address: str, experiment: Experiment, store_path: Path, resume: bool = False, quiet: bool = False,
               ships: Sequence[str] = (), there: Sequence[str] = (), tls: Mapping[str, str] = {}) -> bool:
    """Measure on the cluster at `address`. False when Ctrl-C ended it early; every block that came is kept then, and where `Unfinished` is raised,
    too."""
    check_address(address, tls)
    parcel = packed(experiment, ships, there)
    store = _continued(Store.open(store_path), experiment, parcel) if resume else None
    with FleetProgress(experiment, quiet) as progress, Cluster(address, tls) as cluster, _Session(experiment, parcel, cluster, store, store_path, progress) as session:
        try:
            session.run()
        except KeyboardInterrupt:
            if session.store is None:
                raise
            return False
        except Unfinished as error:
            if session.store is None:
                raise BadInput(f"{error}; nothing was measured yet") from None
            raise
    return True


def _continued(store: Store, experiment: Experiment, parcel: Parcel) -> Store:
    """A store that is ready to go on elsewhere. What was measured must still be what travels."""
    store.update_experiment(experiment)
    before = store.files()
    if lost := sorted(before.keys() - parcel.digests.keys()):
        raise BadInput(f"{lost[0]} was sent or looked for when {store.path} was begun, and nothing names it now; name it by --ship or --there, or bring it back")
    for path, digest in parcel.digests.items():
        if before.get(path, digest) != digest:
            raise BadInput(f"{path} has changed since {store.path} was begun (SHA-256 {before[path][:12]}, now {digest[:12]}); "
                           "bring it back, or begin a new store")
    store.add_files(parcel.digests)
    store.name_machine(socket.gethostname())
    store.drop_blocks_below(len(experiment.arms()))
    return store


class _Session(contextlib.AbstractContextManager):
    """`todo` are the blocks that nobody has. Before there is a store the first machine is only looked at: it shows what the programs print,
    and all others must print the same."""

    def __init__(self, experiment: Experiment, parcel: Parcel, cluster: Cluster, store: Store | None, path: Path, progress: FleetProgress):
        self.experiment, self.parcel, self.cluster, self.store, self.path, self.progress = experiment, parcel, cluster, store, path, progress
        self.runs: list[Run] = []  # of the blocks, for the stopping rule; raw samples left out
        self.expected: dict[str, str] = {}  # checksum by program
        self.there: dict[str, tuple[str, float]] = {}  # the workers when last looked at
        self.machines: dict[str, str] = {}  # address → machine, of those of them that took part
        self.refused = ""  # the first that took no part, and why
        self.new = self.judged_at = 0
        self.alone_since: float | None = None
        self.met = False  # some machine took part
        for run in store.runs() if store else ():
            self._note(run)
        have = {run.block for run in self.runs}
        self.whole = len(have)
        self.todo: deque[int | None] = deque(b for b in range(experiment.stop.blocks_max) if b not in have)
        if store is None:
            self.todo.appendleft(None)

    def __exit__(self, *_) -> None:
        if self.store:
            self.store.__exit__()

    def run(self) -> None:
        began = time.monotonic()
        self.progress.stage("sending files")
        self.cluster.equip(self.parcel)
        self._judge()
        while self.todo or self.cluster.running:
            self._give_out(self._look())
            for block, said in self.cluster.finished(_LOOK_EVERY_S):
                self._came(block, said)
            if self.whole and self.experiment.stop.over_budget(time.monotonic() - began):
                return

    # --- who is there ---

    def _look(self) -> int:
        """How many machines measure now. Says who has gone, and ends the run where nobody is left."""
        before, self.there = self.there, (there := self.cluster.workers())
        for address in set(before) - set(there):
            name, units = before[address]
            if units or address in self.machines:
                self.progress.says(f"{self.machines.pop(address, name)} is gone; a block that it had is run again elsewhere")
        able = sum(units >= 1 for _, units in there.values())
        if able:
            self.alone_since = None
        else:
            self._nobody(len(there))
        return able

    def _nobody(self, others: int) -> None:
        """No machine can measure: wait for one, within bounds."""
        if self.refused and others:
            raise Unfinished(f"no worker can measure; {self.refused}")
        patience = _RETURN_S if self.met else _PATIENCE_S
        if self.alone_since is None:
            self.alone_since = time.monotonic()
            if self.met:
                self.progress.says(f"no machine is left; waiting {patience:g} s for one")
        if time.monotonic() - self.alone_since < patience:
            return
        if self.met:
            raise Unfinished(f"no machine is left, and none came within {patience:g} s")
        has = f"none of the scheduler's {others} workers offers the resource ashlar" if others else "the scheduler has no worker"
        raise Unfinished(f"{has}; start some with 'dask worker SCHEDULER --nworkers 1 --nthreads 1 --resources ashlar=1'")

    # --- blocks ---

    def _give_out(self, machines: int) -> None:
        """As many blocks as there are machines: a free one gets the next, so that fast ones do more. Where there is none the scheduler keeps one for
        the first that comes."""
        while self.todo and len(self.cluster.running) < (max(1, machines) if self.store else 1):
            self.cluster.submit(self.todo.popleft(), self.expected)

    def _came(self, block: int | None, said: dict) -> None:
        """What a machine says of a block, its check runs included."""
        machine = said["machine"]
        if "refused" in said:
            self.refused = self.refused or f"{machine}: {said['refused'].rstrip('.')}"
            self.progress.says(f"{machine} takes no part: {said['refused']}")
            self.todo.appendleft(block)
            return
        checks, runs = ([Run.of({**run, "machine": machine}) for run in said[kind]] for kind in ("checks", "runs"))
        known = machine in self._joined(machine, said["address"], said["facts"])
        self.store.add(*(came := runs if known else checks + runs))
        for run in came:
            self._note(run)
            self.progress.failed(run)
        if block is not None:
            self.whole, self.new = self.whole + 1, self.new + 1
            self._judge()
        self.progress.blocks(self.whole, self.new, len(self.machines))

    def _joined(self, machine: str, address: str, facts: dict) -> Iterable[str]:
        """Note a machine before its first results; the first of all begins the store. Returns the machines that the store knew before."""
        if {a for a, name in self.machines.items() if name == machine and a != address} & self.cluster.workers().keys():
            raise Unfinished(f"two workers are both called {machine}; start them with --name")
        if self.store is None:
            self.store = Store.create(self.path, self.experiment, facts, self.parcel.digests)
        known = self.store.machines()
        if address not in self.machines:
            try:
                self.store.add_machine(machine, facts)
            except BadInput as error:
                raise Unfinished(str(error)) from None
            self.machines[address], self.met = machine, True
            self.progress.says(f"{machine} takes part")
        return known

    def _note(self, run: Run) -> None:
        learn(self.expected, run, self.experiment.baseline)
        if run.block >= 0:
            self.runs.append(dataclasses.replace(run, series=(), pss=(), latency_s=()))

    def _judge(self) -> None:
        """Whether it is enough. Looked at after every block while there are few, then each time a twentieth more has come."""
        if self.whole < self.experiment.stop.blocks_min or self.whole < self.judged_at * 1.05:
            return
        self.judged_at = self.whole
        if enough(self.experiment, self.runs):
            self.todo.clear()
