"""Runs arranged by program, variant, knob value and block: the shape every estimate starts from."""

import functools
from collections.abc import Sequence

import numpy as np

from ashlar_lab.experiment.model import Arm, Variant
from ashlar_lab.fit.across import across
from ashlar_lab.fit.trimmed import Estimate, Trimmed, exp_estimate, nothing
from ashlar_lab.metrics import SERVED
from ashlar_lab.store.run import Run
from ashlar_lab.store.table import Table


class Cells:
    """The successful runs of the blocks, by arm. A failed run has no place here; it is reported by itself. Only what the lab measured of its requests
    counts: percentiles without the runs in which many requests failed would be missing exactly where they are worst.

    A block is of one machine. `reference` is the machine with the most blocks: plain values, in seconds or MiB, are always
    those of one machine, and this is the one.
    """

    def __init__(self, runs: Sequence[Run]):
        table = self.table = Table.of(runs)
        self._rows, self._answered = _by_arm(table, table.good()), _by_arm(table, table.answered())
        self._counts = dict(zip(table.arms, np.bincount(table.arm[table.measured()], minlength=len(table.arms)).tolist()))
        self._column = functools.cache(table.column)
        blocks, first = np.unique(table.block[table.measured()], return_index=True)
        self._blocks, self._machine = blocks, table.machine[table.measured()][first]
        counts = np.bincount(self._machine, minlength=len(table.machines))
        self.blocks_of = {name: int(n) for name, n in zip(table.machines, counts) if n}
        self.machines = tuple(sorted(self.blocks_of))
        self.reference = max(self.machines, key=self.blocks_of.get, default="")
        self._reference = table.machines.index(self.reference) if self.machines else -1

    def outcomes(self, arm: Arm) -> tuple[int, int]:
        """How many runs succeeded, and how many failed."""
        good = len(self._rows.get(arm, ()))
        return good, self._counts.get(arm, 0) - good

    def series(self, metric: str, arm: Arm) -> tuple[np.ndarray, np.ndarray]:
        """(blocks, values) of one metric in one arm, by block."""
        served = metric in SERVED and (arm.program, metric) not in self.table.told
        rows = (self._answered if served else self._rows).get(arm, np.zeros(0, int))
        values = self._column(metric)[rows]
        there = ~np.isnan(values)
        return self.table.block[rows][there], values[there]

    def together(self, *asked: tuple[str, Arm], own: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """(blocks, values shaped (asked, blocks)) of metrics of arms, over the blocks that have all of them; with `own` those of the
        reference machine."""
        every = [self.series(*one) for one in asked]
        blocks = functools.reduce(np.intersect1d, (there for there, _ in every))
        if own:
            blocks = blocks[self.machine_of(blocks) == self._reference]
        return blocks, np.array([values[np.searchsorted(there, blocks)] for there, values in every])

    def machine_of(self, blocks: np.ndarray) -> np.ndarray:
        """The number of each block's machine."""
        return self._machine[np.searchsorted(self._blocks, blocks)]

    def own(self, metric: str, arm: Arm) -> np.ndarray:
        """The values of the reference machine's blocks."""
        return self.together((metric, arm), own=True)[1][0]

    def own_differences(self, metric: str, first: Arm, second: Arm) -> np.ndarray:
        """First minus second in the reference machine's blocks, but for those where both are infinite."""
        _, (a, b) = self.together((metric, first), (metric, second), own=True)
        with np.errstate(invalid="ignore"):
            found = a - b
        return found[~np.isnan(found)]

    def _groups(self, blocks: np.ndarray, values: np.ndarray) -> dict[str, np.ndarray]:
        """Values by the machine of their blocks."""
        machine = self.machine_of(blocks)
        order = np.argsort(machine, kind="stable")
        present, starts = np.unique(machine[order], return_index=True)
        return {self.table.machines[m]: part for m, part in zip(present, np.split(values[order], starts[1:]))}

    def logs(self, metric: str, arm: Arm) -> dict[str, np.ndarray]:
        """Machine → logarithms of the values of its blocks; infinite ones where a value is 0 or infinite."""
        blocks, values = self.series(metric, arm)
        with np.errstate(divide="ignore"):
            return self._groups(blocks[values >= 0], np.log(values[values >= 0]))

    def log_ratios(self, metric: str, first: Arm, second: Arm) -> dict[str, np.ndarray]:
        """Machine → log-ratios of its blocks. Where one value is 0 or infinite, so is the ratio: the block counts as the smallest or the largest.
        Only 0 over 0, infinite over infinite, and what is negative have no ratio."""
        blocks, (a, b) = self.together((metric, first), (metric, second))
        whole = (a >= 0) & (b >= 0) & ((a != b) | (a > 0) & np.isfinite(a))
        with np.errstate(divide="ignore"):
            return self._groups(blocks[whole], np.log(a[whole] / b[whole]))

    def log_ratio(self, metric: str, first: Arm, second: Arm) -> Trimmed | None:
        """The log-ratio with its error, machines accounted for (`across`)."""
        groups = self.log_ratios(metric, first, second)
        return across(list(groups.values())) if groups else None

    def ratio(self, metric: str, first: Arm, second: Arm) -> Estimate | None:
        found = self.log_ratio(metric, first, second)
        return exp_estimate(found) if found else None

    def asked_ratio(self, metric: str, first: Arm, second: Arm) -> Estimate:
        """The same where somebody waits for an answer: nothing where there is none, with the blocks that have both."""
        return self.ratio(metric, first, second) or nothing(len(self.together((metric, first), (metric, second))[0]))


def _by_arm(table: Table, chosen: np.ndarray) -> dict[Arm, np.ndarray]:
    """The chosen rows of each arm, by block."""
    order = table.order[chosen[table.order]]
    by_arm = order[np.argsort(table.arm[order], kind="stable")]
    edges = np.searchsorted(table.arm[by_arm], np.arange(len(table.arms) + 1))
    return {arm: by_arm[edges[i]:edges[i + 1]] for i, arm in enumerate(table.arms)}


def common_values(first: Variant, second: Variant) -> list[tuple[str | None, str | None]]:
    """The pairs of knob values at which two variants are compared: equal ones of one knob. A variant without a knob is compared at
    each value of the other, and values of unlike knobs have nothing to do with each other: only curves compare those."""
    if not first.values or not second.values:
        return [(v if first.values else None, v if second.values else None) for v in first.values or second.values or (None,)]
    pairs = ((v, second.value_at(first.knob, v)) for v in first.values)
    return [(v, other) for v, other in pairs if other is not None]
