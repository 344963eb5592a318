"""Runs arranged by program, variant, knob value and block: the shape every estimate starts from."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence

from ashlar_lab.experiment.model import MAIN
from ashlar_lab.fit.trimmed import Trimmed, trimmed
from ashlar_lab.store.run import OK, Run

Cell = tuple[str, str, str | None, str]


class Cells:
    """The successful runs of the blocks: `cells[arm][block]` is that run's metrics. A failed run has no place here;
    it is reported by itself."""

    def __init__(self, runs: Iterable[Run]):
        self._metrics: dict[Cell, dict[int, dict[str, float]]] = defaultdict(dict)
        for run in runs:
            if run.block >= 0 and run.state == OK:
                self._metrics[run.arm][run.block] = run.metrics

    def blocks(self, arm: Cell) -> dict[int, dict[str, float]]:
        return self._metrics.get(arm, {})

    def values(self, metric: str, program: str, variant: str, value: str | None, role: str = MAIN) -> dict[int, float]:
        """Block → value of one metric in one arm."""
        found = self.blocks((program, variant, value, role))
        return {block: m[metric] for block, m in sorted(found.items()) if metric in m}

    def pairs(self, metric: str, first: Cell, second: Cell) -> list[tuple[float, float]]:
        """Values of the blocks in which both arms succeeded."""
        a, b = self.values(metric, *first), self.values(metric, *second)
        return [(a[block], b[block]) for block in sorted(a.keys() & b.keys())]

    def log_ratio(self, metric: str, first: Cell, second: Cell) -> Trimmed | None:
        logs = [math.log(a / b) for a, b in self.pairs(metric, first, second) if a > 0 and b > 0]
        return trimmed(logs) if logs else None


def common_values(first: Sequence[str], second: Sequence[str]) -> list[str | None]:
    """The knob values two variants share; a variant without a knob is compared at each value of the other."""
    if not first and not second:
        return [None]
    if not first or not second:
        return list(first or second)
    return [v for v in first if v in second]
