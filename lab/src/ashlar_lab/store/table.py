"""Many runs by column: what estimates need of a million runs, without a million objects.

A `Table` holds what every run has in few bytes: block, position, codes for its arm, state and machine, and its metrics as
rows of one matrix per set of metric names. `Runs` is a list of whole runs that knows the table of all of them; of a large
store it lists only some.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence

import numpy as np

from ashlar_lab.store.run import OK, Run

Arm = tuple[str, str, str | None, str]
# One row of a table as it is read: block, position, arm, state, reason, checksum, machine, metrics.
Row = tuple[int, int, Arm, str, str, str | None, str, dict[str, float]]


class _Codes:
    """Values that repeat, as small numbers in the order they came."""

    def __init__(self):
        self.names: list = []
        self._known: dict = {}
        self._codes = array("i")

    def append(self, value) -> None:
        code = self._known.get(value)
        if code is None:
            code = self._known[value] = len(self.names)
            self.names.append(value)
        self._codes.append(code)

    def done(self) -> np.ndarray:
        return np.frombuffer(self._codes, dtype=np.int32) if self._codes else np.zeros(0, np.int32)


class Table:
    """Columns over all runs, ordered by block and position. `arm[i]` is an index into `arms`, `state[i]` into `states`, `machine[i]` into
    `machines`, `reason[i]` and `checksum[i]` into `reasons` and `checksums`."""

    def __init__(self, rows: Iterable[Row], told: Iterable[str] = ()):
        block, position = array("i"), array("i")
        arm, state, reason, checksum, machine = _Codes(), _Codes(), _Codes(), _Codes(), _Codes()
        parts: dict[tuple[str, ...], tuple[array, array]] = {}
        for at, (b, p, a, s, why, digest, m, metrics) in enumerate(rows):
            block.append(b)
            position.append(p)
            arm.append(a)
            state.append(s)
            reason.append(why)
            checksum.append(digest)
            machine.append(m)
            names = tuple(metrics)
            part = parts.get(names)
            if part is None:
                part = parts[names] = (array("i"), array("d"))
            part[0].append(at)
            part[1].extend(metrics.values())
        self.block, self.position = (np.frombuffer(c, dtype=np.int32) if c else np.zeros(0, np.int32) for c in (block, position))
        self.arm, self.state, self.machine = arm.done(), state.done(), machine.done()
        self.reason, self.checksum = reason.done(), checksum.done()
        self.arms, self.states, self.machines = arm.names, state.names, machine.names
        self.reasons, self.checksums = reason.names, checksum.names
        self._parts = [(names, np.frombuffer(at, dtype=np.int32), np.frombuffer(values, dtype=np.float64).reshape(len(at), len(names)))
                       for names, (at, values) in parts.items() if names]
        self.order = np.lexsort((self.position, self.block))
        self.told = frozenset(told)

    @staticmethod
    def of(runs: Sequence[Run]) -> "Table":
        """The table of these runs, or the one that `Runs` has already."""
        if isinstance(runs, Runs) and runs.table is not None:
            return runs.table
        return Table(((r.block, r.position, r.arm, r.state, r.reason, r.checksum, r.machine, r.metrics) for r in runs),
                     {m for r in runs for m in r.told})

    def __len__(self) -> int:
        return len(self.block)

    def metrics(self, measured_only: bool = True) -> set[str]:
        """The names that any run has; only runs of blocks count unless told otherwise."""
        return {name for names, at, _ in self._parts for name in names if not measured_only or (self.block[at] >= 0).any()}

    def column(self, metric: str) -> np.ndarray:
        """One value per run; nan where a run has none."""
        found = np.full(len(self), np.nan)
        for names, at, values in self._parts:
            if metric in names:
                found[at] = values[:, names.index(metric)]
        return found

    def measured(self) -> np.ndarray:
        """Which runs belong to blocks; the others are check runs."""
        return self.block >= 0

    def good(self) -> np.ndarray:
        """Which runs belong to blocks and succeeded."""
        return self.measured() & (self.state == self.states.index(OK)) if OK in self.states else np.zeros(len(self), bool)

    def counts(self) -> dict[str, int]:
        """Runs by state."""
        return {name: int(n) for name, n in zip(self.states, np.bincount(self.state, minlength=len(self.states)))}


class Runs(list):
    """Whole runs, with the table of all runs of the store; `len(runs.table)` may be more than `len(runs)`."""

    def __init__(self, shown: Iterable[Run] = (), table: Table | None = None):
        super().__init__(shown)
        self.table = table
