"""Two stores of one machine against each other: what changed, and is it surely more than the threshold?

Blocks of different stores are not pairs, so this is Yuen's test on the logarithms: difference of trimmed means, errors
added in squares, degrees of freedom after Welch. With `relative`, each side's paired ratio to its own baseline is
compared instead, which cancels a machine that was slower on one of the days.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ashlar_lab.experiment.model import MAIN, Experiment
from ashlar_lab.fit.cells import Cells
from ashlar_lab.fit.ratios import metrics_of
from ashlar_lab.fit.trimmed import Estimate, Trimmed, exp_estimate, trimmed
from ashlar_lab.store.run import Run

WORSE, BETTER, UNDECIDED, SAME = "worse", "better", "undecided", "within threshold"


@dataclass(frozen=True)
class Difference:
    """Second store over first for one metric of one arm. `judged` looks at the interval, never at the mean alone."""

    program: str
    variant: str
    value: str | None
    metric: str
    ratio: Estimate
    judged: str


def differences(experiment: Experiment, first: Sequence[Run], second: Sequence[Run], metrics: Sequence[str] | None,
                threshold: float, relative: bool) -> list[Difference]:
    """Every arm that both stores have. `threshold` is a fraction: 0.05 lets 5 % pass."""
    a, b = Cells(first), Cells(second)
    known = [m for m in metrics_of(experiment, first) if m in metrics_of(experiment, second)]
    chosen = list(metrics) if metrics else [m for m in dict.fromkeys((experiment.time_metric, experiment.space_metric)) if m in known]
    found = []
    for arm in experiment.arms():
        if arm.role != MAIN or (relative and arm.variant == experiment.baseline):
            continue
        for metric in chosen:
            cell = (arm.program, arm.variant, arm.value, MAIN)
            left, right = _side(experiment, a, metric, cell, relative), _side(experiment, b, metric, cell, relative)
            if left is None or right is None:
                continue
            ratio = _between(left, right)
            found.append(Difference(arm.program, arm.variant, arm.value, metric, ratio, _judged(ratio, threshold, metric.endswith("_per_s"))))
    return found


def _side(experiment: Experiment, cells: Cells, metric: str, cell, relative: bool) -> Trimmed | None:
    if relative:
        baseline = experiment.variant(experiment.baseline)
        value = cell[2] if cell[2] in baseline.values else baseline.middle_value()
        return cells.log_ratio(metric, cell, (cell[0], baseline.name, value, MAIN))
    logs = [math.log(v) for v in cells.values(metric, *cell).values() if v > 0]
    return trimmed(logs) if logs else None


def _between(left: Trimmed, right: Trimmed) -> Estimate:
    n = min(left.n, right.n)
    if left.freedom < 1 or right.freedom < 1:
        return Estimate(math.exp(right.mean - left.mean), 0.0, math.inf, n)
    squares = left.error**2, right.error**2
    below = squares[0] ** 2 / left.freedom + squares[1] ** 2 / right.freedom
    freedom = max(1, int(sum(squares) ** 2 / below)) if below > 0 else min(left.freedom, right.freedom)
    return exp_estimate(Trimmed(right.mean - left.mean, math.sqrt(sum(squares)), freedom, n))


def _judged(ratio: Estimate, threshold: float, more_is_better: bool) -> str:
    low, high = (1 / ratio.high, 1 / ratio.low if ratio.low > 0 else math.inf) if more_is_better else (ratio.low, ratio.high)
    if low > 1 + threshold:
        return WORSE
    if high < 1 / (1 + threshold):
        return BETTER
    if high < 1 + threshold and low > 1 / (1 + threshold):
        return SAME
    return UNDECIDED
