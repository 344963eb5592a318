"""The runs of one program arranged for curve fitting: space and time by variant, knob value and block."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ashlar_lab.experiment.model import MAIN, Experiment
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
    return Sweep(program, blocks, values, logs(0), logs(1), dropped)


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
    chosen = np.random.default_rng(seed).integers(0, n, (replicates, n))
    chosen = np.concatenate([np.arange(n)[None, :], chosen])
    effect = sweep.block_effect()
    level = effect[chosen].mean(axis=1)
    found = {}
    for name, time in sweep.time.items():
        # Trimming acts on times freed of the block's common slowness; the resample's mean slowness is put back.
        t = trimmed_mean((time - effect)[:, chosen]).T + level[:, None]
        found[name] = Points(np.exp(trimmed_mean(sweep.space[name][:, chosen]).T), np.exp(t))
    return found
