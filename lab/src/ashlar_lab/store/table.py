"""Many runs by column: what estimates need of a million runs, without a million objects.

A `Table` holds what every run has in few bytes: block, position, codes for its arm, state and machine, and its metrics as
rows of one matrix per set of metric names. `Runs` is a list of whole runs that knows the table of all of them; of a large
store it lists only some.
"""

from array import array
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from ashlar_lab.experiment.model import Arm
from ashlar_lab.store.run import CRASHED, OK, TIMED_OUT, Run, same_output

# What repeats from row to row; the first four are the arm.
REPEATS = ("program", "variant", "value", "role", "state", "reason", "checksum", "machine")
# One row of a table as it is read: block, position, load, REPEATS, metrics.
Row = tuple[int, int, float, tuple[str | None, ...], dict[str, float]]


class Table:
    """Columns over all runs, ordered by block and position. `arm[i]` is an index into `arms`, `state[i]` into `states`, `machine[i]` into
    `machines`, `reason[i]` and `checksum[i]` into `reasons` and `checksums`. `told` has (program, name) of the figures that programs reported themselves."""

    def __init__(self, rows: Iterable[Row], told: Iterable[tuple[str, str]] = ()):
        block, position, load, kind = array("i"), array("i"), array("d"), array("i")
        kinds: dict[tuple, int] = {}  # what repeats of a row, together: one look-up a row
        parts: dict[tuple[str, ...], tuple[array, array]] = {}
        for at, (b, p, before, repeats, metrics) in enumerate(rows):
            block.append(b)
            position.append(p)
            load.append(before)
            kind.append(kinds.setdefault(repeats, len(kinds)))
            names = tuple(metrics)
            rows_with, values = parts.setdefault(names, (array("i"), array("d")))
            rows_with.append(at)
            values.extend(metrics.values())
        self.block, self.position, of_kind = (np.array(c, np.int32) for c in (block, position, kind))
        self.load = np.array(load)
        columns = list(zip(*((Arm(*k[:4]), *k[4:]) for k in kinds))) or [()] * 5
        (self.arms, self.arm), (self.states, self.state), (self.reasons, self.reason), (self.checksums, self.checksum), (self.machines, self.machine) = (
            _coded(column, of_kind) for column in columns)
        self._parts = [(names, np.frombuffer(at, dtype=np.int32), np.frombuffer(values, dtype=np.float64).reshape(len(at), len(names)))
                       for names, (at, values) in parts.items() if names]
        self.order = np.lexsort((self.position, self.block))
        self.told = frozenset(told)

    @staticmethod
    def of(runs: Sequence[Run]) -> "Table":
        """The table of these runs, or the one that `Runs` has already."""
        if isinstance(runs, Runs):
            return runs.table
        return Table(((r.block, r.position, r.load, tuple(getattr(r, name) for name in REPEATS), r.metrics) for r in runs), {(r.program, m) for r in runs for m in r.told})

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
        return self._in(OK)

    def answered(self) -> np.ndarray:
        """Which runs of blocks say how requests went: those of a server that failed or was killed, too, whose requests without an answer count."""
        return self._in(OK, CRASHED, TIMED_OUT)

    def _in(self, *states: str) -> np.ndarray:
        return self.measured() & np.array([state in states for state in self.states], bool)[self.state]

    def outputs(self, of: np.ndarray | None = None) -> dict[str, set[str]]:
        """Program → the checksums of its good runs, where its output is compared; `of` tells those runs apart that are asked about."""
        rows = self.good() if of is None else self.good() & of
        found: dict[str, set[str]] = {}
        for arm, checksum in np.unique(np.stack([self.arm[rows], self.checksum[rows]], axis=1), axis=0).tolist():
            if self.checksums[checksum]:
                found.setdefault(self.arms[arm].program, set()).add(self.checksums[checksum])
        return found

    def counts(self) -> dict[str, int]:
        """Runs by state."""
        return {name: int(n) for name, n in zip(self.states, np.bincount(self.state, minlength=len(self.states)))}


def other_outputs(first: Mapping[str, set[str]], second: Mapping[str, set[str]]) -> dict[str, str]:
    """Of two sets of runs, each as `outputs` gives it: program → a clause, for each program none of whose runs print the same in both. Time and space of
    other work are no measure."""
    return {program: f"{program} prints something else than before" for program in sorted(first.keys() & second.keys())
            if not any(same_output(a, b) for a in first[program] for b in second[program])}


def _coded(column: Sequence, of_kind: np.ndarray) -> tuple[list, np.ndarray]:
    """The different values of a column of kinds, and every row's index into them."""
    names = list(dict.fromkeys(column))
    number = {name: i for i, name in enumerate(names)}
    return names, np.array([number[value] for value in column], np.int32)[of_kind]


class Runs(list):
    """Whole runs, with the table of all runs of the store; `len(runs.table)` may be more than `len(runs)`."""

    def __init__(self, shown: Iterable[Run], table: Table):
        super().__init__(shown)
        self.table = table
