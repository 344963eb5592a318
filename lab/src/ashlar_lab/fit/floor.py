"""The noise floor: what differs between the baseline and itself (the A/A arm) is noise, whatever the intervals say.

An interval knows the noise that comes and goes from block to block, and not what stays: the order, the place in memory, a
neighbour. So a verdict asks for both: that the whole interval lies beyond the bar, and that the value clears the bar by more than
the A/A arm differs from 1. Without an A/A arm nothing is known of the noise: the floor is infinite, and there is no verdict.
"""

import math
from collections.abc import Iterable, Sequence

import numpy as np

from ashlar_lab.experiment.model import TWIN, Arm, Experiment
from ashlar_lab.fit.cells import Cells
from ashlar_lab.fit.trimmed import LEAST_BLOCKS, Estimate, exp_estimate, trimmed


def twins(experiment: Experiment, program: str) -> tuple[Arm, Arm]:
    """The two arms of the A/A comparison."""
    baseline = experiment.variant(experiment.baseline)
    value = baseline.middle_value()
    return Arm(program, baseline.name, value, TWIN), Arm(program, baseline.name, value)


def of_itself(experiment: Experiment, cells: Cells, metric: str, program: str) -> Estimate | None:
    """The ratio of the A/A arm: 1 where the two are equal in every block, as 0 and 0 are, and None where no block has both."""
    first, second = twins(experiment, program)
    if found := cells.ratio(metric, first, second):
        return found
    blocks, (a, b) = cells.together((metric, first), (metric, second))
    return exp_estimate(trimmed(np.zeros(len(blocks)))) if len(blocks) and (a == b).all() else None


def floor_of(experiment: Experiment, cells: Cells, metric: str) -> float:
    """The largest relative difference that the A/A arm of any program shows in this metric, as a fraction."""
    return largest((e for p in experiment.programs if (e := of_itself(experiment, cells, metric, p.name))), sum(cells.blocks_of.values()))


def largest(ratios: Iterable[Estimate], blocks: int) -> float:
    """The largest relative difference among ratios, as a fraction; one that rests on few of so many blocks says nothing. It is infinite where there is
    none, or one that is infinite or no number."""
    known = (e.value for e in ratios if e.n >= min(blocks, LEAST_BLOCKS))
    return max((max(r, 1 / r) if r > 0 else math.inf for r in known), default=math.inf) - 1


def floor_of_difference(experiment: Experiment, cells: Cells, metric: str, program: str) -> float:
    """The same in the metric's unit, of one program: units of several have no common size."""
    differences = cells.own_differences(metric, *twins(experiment, program))
    enough = len(differences) >= max(1, min(cells.blocks_of.get(cells.reference, 0), LEAST_BLOCKS))
    found = abs(trimmed(differences).mean) if enough else math.inf
    return math.inf if math.isnan(found) else found


def surely_below(e: Estimate, bar: float, floor: float) -> bool:
    """Whether a ratio is at or below the bar by interval and floor."""
    return e.high <= bar and e.value * (1 + floor) <= bar


def surely_above(e: Estimate, bar: float, floor: float) -> bool:
    return e.low > bar and e.value > bar * (1 + floor)


def differs(e: Estimate, floor: float) -> bool:
    """Whether a ratio is surely not 1."""
    return e.excludes(1.0) and not 1 / (1 + floor) <= e.value <= 1 + floor


def within_noise(logs: Sequence[float], floor: float) -> bool:
    """Whether any logarithm of a ratio is no further from none than the floor."""
    return min(map(abs, logs)) <= math.log1p(floor)
