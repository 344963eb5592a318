"""Runs arranged by program, variant, knob value and block: the shape every estimate starts from."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ashlar_lab.experiment.model import Arm, Variant
from ashlar_lab.fit.across import across
from ashlar_lab.fit.trimmed import Trimmed
from ashlar_lab.store.run import Run
from ashlar_lab.store.table import Table


class Cells:
    """The successful runs of the blocks, by arm. A failed run has no place here; it is reported by itself.

    A block is of one machine. `reference` is the machine with the most blocks: plain values, in seconds or MiB, are always
    those of one machine, and this is the one.
    """

    def __init__(self, runs: Sequence[Run]):
        table = self.table = Table.of(runs)
        order = table.order[table.good()[table.order]]
        by_arm = order[np.argsort(table.arm[order], kind="stable")]
        edges = np.searchsorted(table.arm[by_arm], np.arange(len(table.arms) + 1))
        self._rows = {arm: by_arm[edges[i]:edges[i + 1]] for i, arm in enumerate(table.arms)}
        self._columns: dict[str, np.ndarray] = {}
        blocks, first = np.unique(table.block[table.measured()], return_index=True)
        self._blocks, self._machine = blocks, table.machine[table.measured()][first]
        counts = np.bincount(self._machine, minlength=len(table.machines)) if len(blocks) else np.zeros(0, int)
        self.blocks_of = {table.machines[i]: int(n) for i, n in enumerate(counts) if n}
        self.machines = tuple(sorted(self.blocks_of))
        self.reference = max(self.machines, key=lambda m: self.blocks_of[m]) if self.machines else ""
        self._number = {name: i for i, name in enumerate(table.machines)}

    def series(self, metric: str, arm: Arm) -> tuple[np.ndarray, np.ndarray]:
        """(blocks, values) of one metric in one arm, by block."""
        rows = self._rows.get(arm)
        if rows is None:
            return np.zeros(0, int), np.zeros(0)
        if metric not in self._columns:
            self._columns[metric] = self.table.column(metric)
        values = self._columns[metric][rows]
        there = ~np.isnan(values)
        return self.table.block[rows][there], values[there]

    def own(self, metric: str, arm: Arm) -> tuple[np.ndarray, np.ndarray]:
        """The same of the reference machine's blocks."""
        blocks, values = self.series(metric, arm)
        here = self._is_own(blocks)
        return blocks[here], values[here]

    def machine_of(self, blocks: np.ndarray) -> np.ndarray:
        """The number of each block's machine."""
        return self._machine[np.searchsorted(self._blocks, blocks)]

    def pairs(self, metric: str, first: Arm, second: Arm) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(blocks, values of the first, values of the second) over the blocks in which both arms succeeded."""
        (left, a), (right, b) = self.series(metric, first), self.series(metric, second)
        blocks, at_left, at_right = np.intersect1d(left, right, assume_unique=True, return_indices=True)
        return blocks, a[at_left], b[at_right]

    def own_pairs(self, metric: str, first: Arm, second: Arm) -> list[tuple[float, float]]:
        """Pairs of the reference machine's blocks."""
        blocks, a, b = self.pairs(metric, first, second)
        here = self._is_own(blocks)
        return list(zip(a[here].tolist(), b[here].tolist()))

    def _is_own(self, blocks: np.ndarray) -> np.ndarray:
        return self.machine_of(blocks) == self._number[self.reference] if len(blocks) else np.zeros(0, bool)

    def groups(self, blocks: np.ndarray, values: np.ndarray) -> dict[str, np.ndarray]:
        """Values by the machine of their blocks."""
        if len(self.machines) < 2:
            return {self.reference: values} if len(values) else {}
        machine = self.machine_of(blocks)
        order = np.argsort(machine, kind="stable")
        present, starts = np.unique(machine[order], return_index=True)
        return {self.table.machines[m]: part for m, part in zip(present, np.split(values[order], starts[1:]))}

    def log_ratios(self, metric: str, first: Arm, second: Arm) -> dict[str, np.ndarray]:
        """Machine → log-ratios of its blocks."""
        blocks, a, b = self.pairs(metric, first, second)
        whole = (a > 0) & (b > 0)
        return self.groups(blocks[whole], np.log(a[whole] / b[whole]))

    def log_ratio(self, metric: str, first: Arm, second: Arm) -> Trimmed | None:
        """The log-ratio with its error, machines accounted for (`across`)."""
        groups = self.log_ratios(metric, first, second)
        return across(list(groups.values())) if groups else None


def by_block(blocks: np.ndarray, values: np.ndarray) -> dict[int, float]:
    """Block → value."""
    return dict(zip(blocks.tolist(), values.tolist()))


def common_values(first: Variant, second: Variant) -> list[tuple[str | None, str | None]]:
    """The pairs of knob values at which two variants are compared: equal ones of one knob. A variant without a knob is compared at
    each value of the other, and values of unlike knobs have nothing to do with each other: only curves compare those."""
    if not first.values or not second.values:
        return [(v if first.values else None, v if second.values else None) for v in first.values or second.values or (None,)]
    pairs = ((v, second.value_at(first.knob, v)) for v in first.values)
    return [(v, other) for v, other in pairs if other is not None]
