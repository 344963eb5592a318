"""The noise floor: what differs between the baseline and itself (the A/A arm) is noise, whatever the intervals say.

An interval knows the noise that comes and goes from block to block, and not what stays: the order, the place in memory, a
neighbour. So a verdict asks for both: that the whole interval lies beyond the bar, and that the value clears the bar by more than
the A/A arm differs from 1.
"""

import math
from collections.abc import Iterable, Sequence

from ashlar_lab.experiment.model import TWIN, Arm, Experiment
from ashlar_lab.fit.cells import Cells
from ashlar_lab.fit.trimmed import Estimate, trimmed


def twins(experiment: Experiment, program: str) -> tuple[Arm, Arm]:
    """The two arms of the A/A comparison."""
    baseline = experiment.variant(experiment.baseline)
    value = baseline.middle_value()
    return Arm(program, baseline.name, value, TWIN), Arm(program, baseline.name, value)


def floor_of(experiment: Experiment, cells: Cells, metric: str) -> float:
    """The largest relative difference that the A/A arm of any program shows in this metric, as a fraction."""
    found = (cells.log_ratio(metric, *twins(experiment, p.name)) for p in experiment.programs)
    return largest(t.mean for t in found if t is not None)


def largest(logs: Iterable[float]) -> float:
    """The largest relative difference among logarithms of ratios, as a fraction; 0 of none."""
    return math.expm1(max(map(abs, logs), default=0.0))


def floor_of_difference(experiment: Experiment, cells: Cells, metric: str, program: str) -> float:
    """The same in the metric's unit, of one program: units of several have no common size."""
    differences = cells.own_differences(metric, *twins(experiment, program))
    return abs(trimmed(differences).mean) if len(differences) else 0.0


def surely_below(e: Estimate, bar: float, floor: float) -> bool:
    """Whether a ratio is at or below the bar by interval and floor."""
    return e.high <= bar and e.value * (1 + floor) <= bar


def surely_above(e: Estimate, bar: float, floor: float) -> bool:
    return e.low > bar and e.value > bar * (1 + floor)


def differs(e: Estimate, floor: float) -> bool:
    """Whether a ratio is surely not 1."""
    return e.excludes(1.0) and abs(math.log(e.value)) > math.log1p(floor)


def within_noise(logs: Sequence[float], floor: float) -> bool:
    """Whether any logarithm of a ratio is no further from none than the floor."""
    return min(map(abs, logs)) <= math.log1p(floor)
