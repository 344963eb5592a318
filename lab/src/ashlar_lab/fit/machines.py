"""How the machines of one experiment differ: speed, noise, and which of them says something else than the others."""

import math
from dataclasses import dataclass

import numpy as np

from ashlar_lab.experiment.model import Experiment
from ashlar_lab.fit.across import DIFFER_BELOW_P, POPULATION, apart
from ashlar_lab.fit.cells import Cells
from ashlar_lab.fit.floor import floor_of, twins, within_noise
from ashlar_lab.fit.ratios import comparisons
from ashlar_lab.fit.trimmed import LEAST_BLOCKS, Estimate, Trimmed, exp_estimate, mean, of_means, summed, trimmed

# A machine stands out when it is further from the middle than this many robust standard deviations of the others.
_FAR = 4.0
# Degrees of freedom from which a machine's own noise is known well enough for a test far out in the tail.
_KNOWS_ITSELF = 15
# A machine with fewer blocks than an interval needs counts as at least so many times as noisy as all machines together (docs/notes/lab-machines.md).
_NOISIER = 1.5


@dataclass(frozen=True)
class Machine:
    """One machine. `speed` is its time over the reference machine's for the same work (1.20: a fifth slower; None for the
    reference itself or without common work). `noise` is the spread of a single run's time there, as a fraction. `failures` counts runs."""

    name: str
    blocks: int
    speed: Estimate | None
    noise: float | None
    failures: int


@dataclass(frozen=True)
class Disagreement:
    """A machine whose ratio is not the others'. `variant` is the baseline for its A/A twin."""

    machine: str
    program: str
    variant: str
    value: str | None
    metric: str
    own: Estimate
    others: Estimate


@dataclass(frozen=True)
class Spread:
    """The ratio of one comparison on each machine: the lowest and the highest, and whether they are surely not the same."""

    program: str
    variant: str
    value: str | None
    metric: str
    lowest: str
    low: Estimate
    highest: str
    high: Estimate
    differs: bool


@dataclass(frozen=True)
class Machines:
    """`population` says whether the machines are many enough to stand for others of their kind."""

    reference: str
    population: bool
    machines: tuple[Machine, ...]
    disagreements: tuple[Disagreement, ...]
    spreads: tuple[Spread, ...]


def machines_of(experiment: Experiment, cells: Cells) -> Machines | None:
    """None where all runs are of one machine."""
    if len(cells.machines) < 2:
        return None
    speeds, noises = _speeds(experiment, cells)
    table = cells.table
    failed = table.measured() & ~table.good()
    failures = {name: int((failed & (table.machine == i)).sum()) for i, name in enumerate(table.machines)}
    machines = tuple(Machine(name, cells.blocks_of[name], speeds.get(name), noises.get(name), failures[name]) for name in cells.machines)
    disagreements, spreads = _compared(experiment, cells)
    return Machines(cells.reference, len(cells.machines) >= POPULATION, machines, tuple(disagreements), tuple(spreads))


def _speeds(experiment: Experiment, cells: Cells) -> tuple[dict[str, Estimate], dict[str, float]]:
    """Speed and noise by machine, each a median over arms: an arm that a machine favours moves neither."""
    ratios: dict[str, list[Trimmed]] = {}
    noises: dict[str, list[float]] = {}
    for arm in experiment.arms():
        logs = {name: own for name, own in cells.logs(experiment.time_metric, arm).items() if np.isfinite(own).all()}
        parts = {m: trimmed(v) for m, v in logs.items()}
        for name, part in parts.items():
            if len(logs[name]) > 1:
                noises.setdefault(name, []).append(float(np.std(logs[name], ddof=1)))
            if cells.reference in parts and name != cells.reference:
                ratios.setdefault(name, []).append(summed([part, parts[cells.reference].negated()]))
    speeds = {name: exp_estimate(sorted(parts, key=lambda t: t.mean)[len(parts) // 2]) for name, parts in ratios.items()}
    return speeds, {name: float(np.median(found)) for name, found in noises.items()}


def _compared(experiment: Experiment, cells: Cells) -> tuple[list[Disagreement], list[Spread]]:
    asked = [(p, v, k, metric, first, second) for p, v, k, first, second in comparisons(experiment)
             for metric in (experiment.time_metric, experiment.space_metric)]
    asked += [(*main[:3], experiment.time_metric, twin, main) for twin, main in (twins(experiment, p.name) for p in experiment.programs)]
    disagreements, spreads = [], []
    tests = len(asked) * len(cells.machines)
    floors = {metric: floor_of(experiment, cells, metric) for metric in (experiment.time_metric, experiment.space_metric)}
    for program, variant, value, metric, first, second in asked:
        parts = {name: trimmed(logs) for name, logs in cells.log_ratios(metric, first, second).items()}
        if len(parts) < 2:
            continue
        sure, enough = _with_errors(parts), sum(t.n for t in parts.values()) >= LEAST_BLOCKS
        for name in _outliers(parts, sure, DIFFER_BELOW_P / tests) if enough else ():
            disagreements.append(Disagreement(name, program, variant, value, metric, exp_estimate(parts[name]), exp_estimate(_of_others(sure, name))))
        if variant != experiment.baseline:
            low, *_, high = sorted(parts, key=lambda name: parts[name].mean)
            # Few machines that contradict each other have no common figure (`across`), whatever the noise: that is no verdict, and is said.
            clear = len(parts) < POPULATION or not within_noise([parts[high].mean - parts[low].mean], floors[metric])
            differs = enough and clear and apart(sure[low], sure[high], DIFFER_BELOW_P / math.comb(len(parts), 2))
            spreads.append(Spread(program, variant, value, metric, low, exp_estimate(parts[low]), high, exp_estimate(parts[high]), differs))
    return disagreements, spreads


def _with_errors(parts: dict[str, Trimmed]) -> dict[str, Trimmed]:
    """The same with an error that can be relied on: a machine with few blocks hardly knows its own noise, so that it gets what all machines
    together know of the noise of one block."""
    known = [t for t in parts.values() if t.freedom >= 1]
    freedom = sum(t.freedom for t in known)
    if not freedom:
        return parts
    pooled = math.sqrt(sum(t.freedom * t.error**2 * t.n for t in known) / freedom)

    def error(t: Trimmed) -> float:
        perhaps = pooled / math.sqrt(t.n) * (1 if t.n >= LEAST_BLOCKS else _NOISIER)
        return max(perhaps, t.error if t.freedom >= 1 else 0.0)

    return {name: t if t.freedom >= _KNOWS_ITSELF else Trimmed(t.mean, error(t), freedom, t.n) for name, t in parts.items()}


def _outliers(parts: dict[str, Trimmed], sure: dict[str, Trimmed], p: float) -> list[str]:
    """The machines that differ from the others by more than the margin, than their noise explains at `p`, and than the others
    differ among themselves. Of two machines that differ both are named: nobody can say which of them is right."""
    found = []
    for name in _far_out(parts):
        rest = np.array([t.mean for other, t in parts.items() if other != name])
        with np.errstate(invalid="ignore"):
            middle = float(np.median(rest))
            robust = 1.4826 * float(np.median(np.abs(rest - middle))) if len(rest) > 1 else 0.0
        if abs(parts[name].mean - middle) > _FAR * robust and apart(sure[name], _of_others(sure, name), p):
            found.append(name)
    return found


def _far_out(parts: dict[str, Trimmed]) -> list[str]:
    """Those worth a closer look: of many machines, the ones far from the middle of all."""
    if len(parts) < 4 * POPULATION:
        return list(parts)
    means = np.array([t.mean for t in parts.values()])
    with np.errstate(invalid="ignore"):
        gaps = np.abs(means - np.median(means))
        far = 0.75 * _FAR * 1.4826 * np.median(gaps)
    return [name for name, gap in zip(parts, gaps) if gap > far]


def _of_others(sure: dict[str, Trimmed], name: str) -> Trimmed:
    rest = [t for other, t in sure.items() if other != name]
    return of_means([t.mean for t in rest], sum(t.n for t in rest)) if len(rest) >= POPULATION else mean(rest)
