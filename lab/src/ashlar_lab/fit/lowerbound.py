"""Lower-bound overhead: each arm's total against the cheapest conceivable run of the program.

Baseline = the smallest (total time − attributable collector time) over all variants and knob values; an arm's
overhead is its total over that. It is a lower bound of the true overhead, because the baseline still contains
whatever collection cost cannot be attributed. The ratio is paired within blocks, as every other one; choosing the smallest
favours the lucky arm a little, which the interval does not correct. It is taken from one machine's blocks. Source: Cai, Blackburn, Bond and Maas, "Distilling the Real Cost of
Production Garbage Collectors", ISPASS 2022.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ashlar_lab.experiment.model import PERCENTILES, Arm, Experiment
from ashlar_lab.fit.cells import Cells
from ashlar_lab.fit.trimmed import Estimate, exp_estimate, trimmed, trimmed_mean
from ashlar_lab.metrics import unit_of

_COLLECTOR_TIME = "gc_time_ms"


@dataclass(frozen=True)
class LowerBound:
    """One arm's overhead over the lower bound, as a ratio (1.20: at least 20 % goes to memory management)."""

    program: str
    variant: str
    value: str | None
    ratio: Estimate
    baseline: float
    unit: str
    baseline_arm: str
    attributed: bool


def lower_bounds(experiment: Experiment, cells: Cells) -> list[LowerBound]:
    """Only of times that are totals of a run, as the collector's time is; a latency is not."""
    programs = experiment.programs if experiment.time_metric not in PERCENTILES else ()
    return [bound for program in programs for bound in _of_program(experiment, cells, program.name)]


def _of_program(experiment: Experiment, cells: Cells, program: str) -> Sequence[LowerBound]:
    arms = [Arm(program, v.name, value) for v in experiment.variants for value in v.values or (None,)]
    arms = [arm for arm in arms if len(cells.own(experiment.time_metric, arm))]
    if len(arms) < 2:
        return []
    totals, collector = ([(metric, arm) for arm in arms] for metric in (experiment.time_metric, _COLLECTOR_TIME))
    blocks, times = cells.together(*totals, own=True)
    if not len(blocks):
        return []
    told, both = cells.together(*totals, *collector, own=True)
    attributed = len(told) == len(blocks)
    unit = unit_of(experiment.time_metric)
    rest = np.maximum(times - both[len(arms):] * unit_of(_COLLECTOR_TIME).in_(unit), 0) if attributed else times
    least = trimmed_mean(rest)
    best = int(least.argmin())
    if not (rest[best] > 0).all():
        return []
    name = arms[best].variant + (f" {arms[best].value}" if arms[best].value is not None else "")
    with np.errstate(divide="ignore"):
        logs = np.log(times) - np.log(rest[best])
    return [LowerBound(*arm[:3], exp_estimate(trimmed(logs[i])), float(least[best]), unit.symbol, name, attributed) for i, arm in enumerate(arms)]
