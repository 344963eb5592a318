"""The runs of one program arranged for curve fitting: space and time by variant, knob value and block."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from ashlar_lab.experiment.model import MAIN, Experiment
from ashlar_lab.fit.across import POPULATION
from ashlar_lab.fit.cells import Cells

REPLICATES = 2000


@dataclass(frozen=True)
class Sweep:
    """`space[v]` and `time[v]` hold logarithms, shaped (knob values, blocks). Every variant has the same blocks in the
    same order, so that one resample of blocks serves all of them. Arms that failed in most blocks are left out."""

    program: str
    blocks: tuple[int, ...]
    values: dict[str, tuple[str, ...]]
    space: dict[str, np.ndarray]
    time: dict[str, np.ndarray]
    dropped: tuple[str, ...]
    strata: tuple[int, ...] = ()  # the machine of each block, where a few machines took part
    machines: bool = False  # whether each block stands for a whole machine

    def block_effect(self) -> np.ndarray:
        """Log of how slow each block was, as seen by the median over all arms; sums to about zero."""
        centred = [t - np.median(t, axis=1, keepdims=True) for t in self.time.values()]
        return np.median(np.concatenate(centred), axis=0)


def sweep_of(experiment: Experiment, cells: Cells, program: str) -> Sweep | None:
    """None when no variant has at least two knob values with common successful blocks."""
    series: dict[tuple[str, str], tuple[dict[int, float], dict[int, float]]] = {}
    for variant in experiment.variants:
        for value in variant.values:
            arm = (program, variant.name, value, MAIN)
            space, time = cells.values(experiment.space_metric, *arm), cells.values(experiment.time_metric, *arm)
            series[(variant.name, value)] = (space, time)
    every = set().union(*(set(t) for _, t in series.values())) if series else set()
    kept = {k: v for k, v in series.items() if len(v[1].keys() & v[0].keys()) > len(every) / 2}
    if not kept:
        return None
    blocks = tuple(sorted(set.intersection(*(set(t) & set(s) for s, t in kept.values()))))
    if len(blocks) < 1:
        return None
    values = {}
    for variant in experiment.variants:
        own = tuple(v for v in variant.values if (variant.name, v) in kept)
        if len(own) >= 2:
            values[variant.name] = own
    if not values:
        return None

    def logs(index: int) -> dict[str, np.ndarray]:
        return {name: np.log(np.array([[kept[(name, v)][index][b] for b in blocks] for v in own])) for name, own in values.items()}

    dropped = tuple(f"{name} {value}" for name, value in series if (name, value) not in kept)
    whole = Sweep(program, blocks, values, logs(0), logs(1), dropped)
    return whole if len(cells.machines) < 2 else _at_one_speed(whole, cells)


def _at_one_speed(sweep: Sweep, cells: Cells) -> Sweep:
    """The same with every machine's times at the reference machine's speed: what a machine is slower by in all arms is taken
    out. With machines that stand for others, each becomes one `block`, so that all that is resampled and tested are
    machines; with fewer, resamples keep each machine's share of blocks."""
    machine = cells.machine_of(np.array(sweep.blocks))
    effect = sweep.block_effect()
    present = np.unique(machine)
    speed = {m: float(np.median(effect[machine == m])) for m in present}
    reference = next((m for m in present if cells.table.machines[m] == cells.reference), present[0])
    slower = np.array([speed[m] - speed[reference] for m in machine])
    time = {name: t - slower for name, t in sweep.time.items()}
    if len(present) < POPULATION:
        return dataclasses.replace(sweep, time=time, strata=tuple(machine.tolist()))

    def by_machine(values: np.ndarray) -> np.ndarray:
        return np.stack([trimmed_mean(values[:, machine == m]) for m in present], axis=1)

    return dataclasses.replace(sweep, blocks=tuple(present.tolist()), space={n: by_machine(s) for n, s in sweep.space.items()},
                               time={n: by_machine(t) for n, t in time.items()}, machines=True)


def trimmed_mean(values: np.ndarray, trim: float = 0.2) -> np.ndarray:
    """The 20 % trimmed mean along the last axis."""
    n = values.shape[-1]
    cut = int(trim * n)
    return np.sort(values, axis=-1)[..., cut:n - cut].mean(axis=-1)


@dataclass(frozen=True)
class Points:
    """Trimmed means of space and time, shaped (replicates, knob values); replicate 0 is the data itself."""

    space: np.ndarray
    time: np.ndarray


def resampled(sweep: Sweep, seed: int, replicates: int = REPLICATES) -> dict[str, Points]:
    """Points of every variant under the same resamples of whole blocks."""
    n = len(sweep.blocks)
    chosen = np.concatenate([np.arange(n)[None, :], _resamples(sweep, np.random.default_rng(seed), replicates)])
    effect = sweep.block_effect()
    level = effect[chosen].mean(axis=1)
    found = {}
    for name, time in sweep.time.items():
        # Trimming acts on times freed of the block's common slowness; the resample's mean slowness is put back.
        t = _trimmed_means(time - effect, chosen) + level[:, None]
        found[name] = Points(np.exp(_widened(sweep, _trimmed_means(sweep.space[name], chosen))), np.exp(_widened(sweep, t)))
    return found


def _trimmed_means(values: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Shaped (replicates, knob values); one knob value at a time, since a resample of many blocks is large."""
    return np.stack([trimmed_mean(row[chosen]) for row in values], axis=1)


def _resamples(sweep: Sweep, rng: np.random.Generator, replicates: int) -> np.ndarray:
    """Indices of blocks, shaped (replicates, blocks)."""
    n = len(sweep.blocks)
    if not sweep.strata:
        return rng.integers(0, n, (replicates, n))
    own = [np.flatnonzero(np.array(sweep.strata) == m) for m in sorted(set(sweep.strata))]
    return np.concatenate([blocks[rng.integers(0, len(blocks), (replicates, len(blocks)))] for blocks in own], axis=1)


def _widened(sweep: Sweep, logs: np.ndarray) -> np.ndarray:
    """Of a few machines a bootstrap sees too little of the variance, and its percentiles are a normal's and not a t's: both
    are put right by moving every resample away from the estimate."""
    if not sweep.machines:
        return logs
    from scipy.special import ndtri, stdtrit

    n = len(sweep.blocks)
    factor = float(stdtrit(n - 1, 0.975) / ndtri(0.975)) * np.sqrt(n / (n - 1))
    return logs[:1] + factor * (logs - logs[:1])
