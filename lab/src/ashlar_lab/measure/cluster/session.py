"""Hand out the blocks of an experiment to the machines of a cluster, and store what comes back as it comes.

Invariants, in the order they matter:
1. A block is of one machine: its runs are added only while they come from the machine that the block was given to.
2. A block that lost its machine is forgotten whole and given out again. One that was only interrupted goes on where it was.
3. A run is in the store before anything depends on it; what the store has is all there is to resume.
"""

from __future__ import annotations

import dataclasses
import json
import queue
import socket
import time
import uuid
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from ashlar_lab.errors import BadInput, Unfinished
from ashlar_lab.experiment.model import Experiment
from ashlar_lab.fit.precision import precise_enough
from ashlar_lab.measure.cluster import courier
from ashlar_lab.measure.cluster.engine import Cluster, Ended, Said, Tls, Worker, check_address
from ashlar_lab.measure.cluster.parcel import Parcel, packed
from ashlar_lab.measure.cluster.progress import FleetProgress
from ashlar_lab.store import Run, Store
from ashlar_lab.store.run import OK

_LOOK_EVERY_S = 2.0
# How long a scheduler without a single worker is waited for.
_PATIENCE_S = 30.0
# How long machines that are all gone are waited for, once something was measured. Those that were started here do not come back.
_RETURN_S = 300.0
# An event can come after the end of its task; what has not come by then is run again.
_STRAGGLERS_S = 10.0
# A machine that fails this many blocks in a row, with none in between, is given no more.
_STRIKES = 3


@dataclass
class _Machine:
    """One worker that measures. `block` is None while it joins or is free."""

    worker: Worker
    root: str = ""
    joined: bool = False
    task: str | None = None
    block: int | None = None
    came: int = 0
    ended: Ended | None = None
    ended_at: float = 0.0
    checks: list[Run] = field(default_factory=list)
    facts: dict = field(default_factory=dict)
    refused: str = ""
    strikes: int = 0


def measure_on(address: str, experiment: Experiment, store_path: Path, resume: bool = False, quiet: bool = False,
               ships: Iterable[str] = (), there: Iterable[str] = (), tls: Tls = Tls()) -> bool:
    """Measure on the cluster at `address`. False when Ctrl-C ended it early; every run that came is kept then, and where `Unfinished` is raised,
    too."""
    check_address(address, tls)
    if not resume:
        Store.check_can_create(store_path)
    parcel = packed(experiment, ships, there)
    store = Store.open(store_path) if resume else None
    if store:
        _continue(store, experiment, parcel)
    with FleetProgress(experiment, quiet) as progress, Cluster(address, tls) as cluster:
        session = _Session(experiment, parcel, cluster, store, store_path, progress)
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
        finally:
            session.close()
    return True


def _continue(store: Store, experiment: Experiment, parcel: Parcel) -> None:
    """Make a store ready to go on elsewhere. What was measured must still be what travels."""
    store.update_experiment(experiment)
    before = store.files()
    for path, digest in parcel.digests.items():
        if before.get(path, digest) != digest:
            raise BadInput(f"{path} has changed since {store.path} was begun (SHA-256 {before[path][:12]}, now {digest[:12]}); "
                           "bring it back, or begin a new store")
    store.name_machine(_host_of(store))


def _host_of(store: Store) -> str:
    return store.machine().get("host") or socket.gethostname()


class _Session:
    def __init__(self, experiment: Experiment, parcel: Parcel, cluster: Cluster, store: Store | None, path: Path, progress: FleetProgress):
        self.experiment, self.parcel, self.cluster, self.store, self.path, self.progress = experiment, parcel, cluster, store, path, progress
        self.name = uuid.uuid4().hex[:16]
        self.machines: dict[str, _Machine] = {}  # by address
        self.tasks: dict[str, _Machine] = {}
        self.turned_away: dict[str, str] = {}
        self.alive: dict[str, tuple[str, dict]] = {}
        self.expected: dict[str, str] = {}
        self.arms = len(experiment.arms())
        self.done: dict[int, set[int]] = {}  # block → positions that the store has
        self.owner: dict[int, str] = {}  # block → machine
        self.runs: list[Run] = []  # of the blocks, for the stopping rule; raw samples left out
        self.enough = False
        self.first_open = 0  # every block below is whole
        self.judged_at = 0
        self.spent_s = 0.0
        self.met = False  # some machine took part
        self.alone_since: float | None = None  # every machine is gone
        if store:
            self._take_in(store)

    def _take_in(self, store: Store) -> None:
        for run in store.runs():
            if run.block >= 0:
                self._note(run)
            if run.state == OK and run.checksum and run.variant == self.experiment.baseline:
                self.expected.setdefault(run.program, run.checksum)

    def _note(self, run: Run) -> None:
        self.done.setdefault(run.block, set()).add(run.position)
        self.owner[run.block] = run.machine
        self.runs.append(_light(run))
        self.spent_s += run.metrics.get("wall_s", 0.0)

    # --- the loop ---

    def run(self) -> None:
        began = looked = time.monotonic()
        self._look(first=True)
        while True:
            self._listen()
            now = time.monotonic()
            if now - looked > _LOOK_EVERY_S:
                self._look()
                looked = time.monotonic()
            if self._over_budget(now - began):
                self._halt()
                return
            for machine in list(self.machines.values()):
                self._give_work(machine)
            if self._finished():
                return
            if self.machines:
                self.alone_since = None
            else:
                self._nobody(now, now - began)

    def _finished(self) -> bool:
        return self.store is not None and not self.tasks and self._next_block(None) is None

    def _over_budget(self, seconds: float) -> bool:
        budget = self.experiment.stop.budget_s
        return budget is not None and seconds > budget and any(len(d) == self.arms for d in self.done.values())

    def _nobody(self, now: float, waited_s: float) -> None:
        """There is no machine: wait for one, within bounds."""
        useless = self._useless()
        if not self.met:
            if useless:
                raise BadInput(useless)
            if waited_s > _PATIENCE_S:
                raise BadInput("the scheduler has no worker; start some with 'dask worker SCHEDULER --nworkers 1 --nthreads 1 --resources ashlar=1'")
            return
        if useless or self.cluster.local:
            raise Unfinished(useless or "no machine is left")
        if self.alone_since is None:
            self.alone_since = now
            self.progress.waits(_RETURN_S)
        if now - self.alone_since >= _RETURN_S:
            raise Unfinished(f"no machine is left, and none came within {_RETURN_S:g} s")

    def _useless(self) -> str:
        """Why none of the workers that are there can measure; empty where one could, or none is there."""
        if not self.turned_away or not set(self.alive) <= set(self.turned_away) or (self.met and not self.alive):
            return ""
        address, why = next(iter(self.turned_away.items()))
        return f"no worker can measure; {self.alive.get(address, (address,))[0] or address}: {why}"

    # --- who is there ---

    def _look(self, first: bool = False) -> None:
        """Take in new workers, and notice lost ones."""
        end = time.monotonic() + _PATIENCE_S
        alive = self.cluster.alive()
        while first and len(alive) < self.cluster.expected and time.monotonic() < end:
            time.sleep(0.1)
            alive = self.cluster.alive()
        self.alive = alive
        for address in set(self.machines) - set(alive):
            self._lost(address)
        unknown = set(alive) - set(self.machines) - set(self.turned_away)
        if not unknown:
            return
        found, turned_away = self.cluster.measuring(alive)
        for address, why in turned_away.items():
            self._turn_away(address, alive[address][0], why)
        new = [w for w in found if w.address in unknown and w.address not in self.turned_away]
        if new:
            self._welcome(new)

    def _turn_away(self, address: str, name: str, why: str) -> None:
        if address not in self.turned_away and address not in self.machines:
            self.turned_away[address] = why
            self.progress.says(f"{name or address} takes no part: {why}")

    def _welcome(self, workers: list[Worker]) -> None:
        """Bring the files, check what must be there already, and let each join."""
        addresses = [w.address for w in workers]
        failed = self.cluster.send(self.parcel, addresses, self.progress.sends)
        there = self.cluster.call(courier.digests_of, sorted(self.parcel.there), workers=addresses)
        roots = self.cluster.call(courier.lay_out, self.name, self.parcel.manifest, workers=[a for a in addresses if a not in failed])
        for worker in workers:
            why = failed.get(worker.address) or self._unlike(there.get(worker.address)) or \
                (str(roots[worker.address]) if isinstance(roots.get(worker.address), Exception) else "")
            if why:
                self._turn_away(worker.address, worker.machine, why)
            else:
                self.machines[worker.address] = _Machine(worker, str(roots[worker.address]))

    def _unlike(self, found: object) -> str:
        """What a machine has not, or has another of."""
        if not isinstance(found, dict):
            return f"what is there cannot be looked at ({found})"
        for name, digest in self.parcel.there.items():
            if found.get(name) is None:
                return f"{name} is not there; install it, or --ship it"
            if found[name] != digest:
                return f"its {name} is another one than here (SHA-256 {found[name][:12]}, not {digest[:12]}); install the same, or --ship it"
        return ""

    def _lost(self, address: str) -> None:
        machine = self.machines.pop(address)
        if machine.task:
            self.tasks.pop(machine.task, None)
            self.cluster.forget(machine.task)
        lost = machine.block is not None and len(self.done.get(machine.block, ())) < self.arms
        if lost:
            self._forget_block(machine.block)
        self.progress.gone(machine.worker.machine, (f"; block {machine.block + 1} is run again elsewhere" if lost else ""))

    def _forget_block(self, block: int) -> None:
        if self.done.pop(block, None) and self.store:
            self.store.drop_block(block)
            self.runs = [r for r in self.runs if r.block != block]
        self.owner.pop(block, None)
        self.first_open = min(self.first_open, block)

    # --- work ---

    def _give_work(self, machine: _Machine) -> None:
        if machine.task:
            return
        if not machine.joined:
            # The first machine shows what the programs print; the others wait for that and must print the same.
            if self.store is not None or not any(m.task for m in self.machines.values()):
                self._start(machine, {"do": "join", "check": self.experiment.check, "expected": self.expected})
            return
        block = self._next_block(machine)
        if block is None:
            return
        machine.block = block
        self.owner[block] = machine.worker.machine
        missing = sorted(set(range(self.arms)) - self.done.get(block, set()))
        self._start(machine, {"do": "block", "block": block, "positions": missing, "expected": self.expected})

    def _start(self, machine: _Machine, request: dict) -> None:
        machine.task = uuid.uuid4().hex[:12]
        machine.came, machine.ended, machine.refused = 0, None, ""
        self.tasks[machine.task] = machine
        request["experiment"] = self.parcel.placed(machine.root).to_json()
        self.cluster.start(machine.task, machine.worker, self.name, machine.root, json.dumps(request))

    def _next_block(self, machine: _Machine | None) -> int | None:
        """The lowest block that this machine may run: its own unfinished one, else one that nobody has. With None: any that is
        still to be run by somebody."""
        busy = {m.block for m in self.machines.values() if m.block is not None}
        here = {m.worker.machine for m in self.machines.values()}
        joining = any(not m.joined for m in self.machines.values())
        while len(self.done.get(self.first_open, ())) == self.arms:
            self.first_open += 1
        for block in range(self.first_open, self.experiment.stop.blocks_max):
            have = len(self.done.get(block, ()))
            if have == self.arms or block in busy:
                continue
            if have:
                if machine is None or self.owner[block] == machine.worker.machine:
                    return block
                if self.owner[block] in here or joining:
                    continue
                self._forget_block(block)
            if not self.enough:
                return block
        return None

    # --- what comes back ---

    def _listen(self) -> None:
        """Everything that has come, or half a second of waiting for it; then the tasks whose last line has come."""
        try:
            self._hear(self.cluster.messages.get(timeout=0.5))
            while True:
                self._hear(self.cluster.messages.get_nowait())
        except queue.Empty:
            pass
        for machine in list(self.tasks.values()):
            late = time.monotonic() - machine.ended_at > _STRAGGLERS_S
            if machine.ended and (machine.came >= machine.ended.lines or late):
                self._over(machine)

    def _hear(self, message: Said | Ended) -> None:
        machine = self.tasks.get(message.task)
        if machine is None:
            return  # of a machine that was given up
        if isinstance(message, Ended):
            machine.ended, machine.ended_at = message, time.monotonic()
            return
        machine.came += 1
        said = json.loads(zlib.decompress(message.line))
        if "machine" in said:
            machine.facts = said["machine"]
        elif "starts" in said:
            self.progress.starts(machine.worker.machine, said["starts"], machine.block)
        elif "refused" in said:
            machine.refused = said["refused"]
        elif "run" in said:
            self._came(machine, Run.from_json(self.parcel.back(said["run"], machine.root)))
        elif "joined" in said:
            machine.joined = True

    def _came(self, machine: _Machine, run: Run) -> None:
        run = dataclasses.replace(run, machine=machine.worker.machine)
        if run.block < 0:
            machine.checks.append(run)
        elif run.block == machine.block:
            self.store.add(run)
            self._note(run)
        if run.state == OK and run.checksum and run.variant == self.experiment.baseline:
            self.expected.setdefault(run.program, run.checksum)
        self.progress.came(run)

    def _over(self, machine: _Machine) -> None:
        """A task has ended and all it said has come."""
        ended = machine.ended
        self.tasks.pop(machine.task, None)
        self.cluster.forget(machine.task)
        block, machine.task, machine.block, machine.ended = machine.block, None, None, None
        trouble = machine.refused or ended.problem
        if block is None:
            if machine.joined and not trouble:
                trouble = self._settle(machine)
            if trouble or not machine.joined:
                self.machines.pop(machine.worker.address, None)
                self._turn_away(machine.worker.address, machine.worker.machine, trouble or "it did not finish its check runs")
            return
        if trouble:
            machine.strikes += 1
            self.progress.says(f"{machine.worker.machine}: block {block + 1}: {trouble}")
            if machine.strikes >= _STRIKES:
                self._forget_block(block)
                self.machines.pop(machine.worker.address, None)
                self._turn_away(machine.worker.address, machine.worker.machine, f"{_STRIKES} blocks in a row failed there, the last with: {trouble}")
            return
        machine.strikes = 0
        self._judge()

    def _settle(self, machine: _Machine) -> str:
        """A machine has joined: note it, with its check runs. Returns why it cannot stay, or nothing."""
        name = machine.worker.machine
        facts = {**machine.facts, "kernel_instance": machine.worker.kernel}
        bad = next((r for r in machine.checks if r.state != OK and r.variant == self.experiment.baseline), None)
        if bad:
            return f"{bad.program} · {bad.variant}: {bad.reason}"
        if self.store is None:
            self.store = Store.create(self.path, self.experiment, facts)
            self.store.set_files(self.parcel.digests)
        known = self.store.machines()
        try:
            self.store.add_machine(name, facts)
        except BadInput as error:
            return str(error)
        if name not in known:
            self.store.add_all(machine.checks)
        self.met = True
        self.progress.joined(name)
        return ""

    def _judge(self) -> None:
        """Whether it is enough. Looked at after every block while there are few, then each time a twentieth more has come."""
        whole = {b for b, d in self.done.items() if len(d) == self.arms}
        stop = self.experiment.stop
        if len(whole) < stop.blocks_min or len(whole) < self.judged_at * 1.05:
            return
        self.judged_at = len(whole)
        self.enough = self.enough or precise_enough(self.experiment, [r for r in self.runs if r.block in whole])

    # --- the end ---

    def _halt(self) -> None:
        """Stop what runs now, and take in what has already been said."""
        self.cluster.call(courier.halt, self.name, workers=list(self.machines))
        end = time.monotonic() + 15
        while self.tasks and time.monotonic() < end:
            self._listen()

    def close(self) -> None:
        """Leave nothing behind: no agent, no folder, no open store."""
        try:
            if self.tasks:
                self._halt()
            self.cluster.call(courier.tidy, self.name, workers=list(set(self.machines) | set(self.turned_away)))
        except (KeyboardInterrupt, OSError, RuntimeError, TimeoutError, Unfinished):
            pass
        finally:
            if self.store:
                self.store.__exit__()


def _light(run: Run) -> Run:
    return dataclasses.replace(run, series=(), pss=(), latency_s=())
