"""The runs of one program arranged for curve fitting: space and time by variant, knob value and block."""

from dataclasses import dataclass, replace

import numpy as np

from ashlar_lab.experiment.model import Arm, Experiment
from ashlar_lab.fit.across import POPULATION, across
from ashlar_lab.fit.cells import Cells
from ashlar_lab.fit.trimmed import Trimmed, trimmed_columns, trimmed_mean


@dataclass(frozen=True)
class Sweep:
    """`space[v]` and `time[v]` hold logarithms, shaped (knob values, blocks). Every variant has the same blocks in the
    same order. Arms that failed in most blocks are left out, and those with a value that is 0 or infinite: no curve goes there."""

    program: str
    blocks: tuple[int, ...]
    values: dict[str, tuple[str, ...]]
    space: dict[str, np.ndarray]
    time: dict[str, np.ndarray]
    strata: tuple[int, ...] = ()  # the machine of each block, where a few machines took part

    def block_effect(self) -> np.ndarray:
        """Log of how slow each block was, as seen by the median over all arms; sums to about zero."""
        centred = [t - np.median(t, axis=1, keepdims=True) for t in self.time.values()]
        return np.median(np.concatenate(centred), axis=0)


def sweep_of(experiment: Experiment, cells: Cells, program: str) -> Sweep | None:
    """None when no variant has at least two knob values with common successful blocks."""
    metrics = experiment.space_metric, experiment.time_metric
    arms = [Arm(program, variant.name, value) for variant in experiment.variants for value in variant.values]
    measured = set().union(*(cells.series(experiment.time_metric, arm)[0].tolist() for arm in arms))
    kept = [arm for arm in arms if _has_points(cells.together(*((m, arm) for m in metrics))[1], len(measured) / 2)]
    if not kept:
        return None
    blocks, both = cells.together(*((m, arm) for m in metrics for arm in kept))
    rows = {v.name: [i for i, arm in enumerate(kept) if arm.variant == v.name] for v in experiment.variants}
    values = {name: tuple(kept[i].value for i in own) for name, own in rows.items() if len(own) >= 2}
    if not len(blocks) or not values:
        return None
    space, time = ({name: np.log(of[rows[name]]) for name in values} for of in np.split(both, 2))
    whole = Sweep(program, tuple(blocks.tolist()), values, space, time)
    return whole if len(cells.machines) < 2 else _at_one_speed(whole, cells)


def _has_points(both: np.ndarray, more_than: float) -> bool:
    """Whether an arm has space and time in more blocks than so many, and a logarithm of each."""
    return both.shape[1] > more_than and bool(((both > 0) & np.isfinite(both)).all())


def _at_one_speed(sweep: Sweep, cells: Cells) -> Sweep:
    """The same with every machine's times at the reference machine's speed: what a machine is slower by in all arms is taken
    out. With machines that stand for others, each becomes one `block`, so that intervals and
    tests are over machines; with fewer, `over_blocks` keeps the machines apart."""
    machine = cells.machine_of(np.array(sweep.blocks))
    effect = sweep.block_effect()
    present = np.unique(machine)
    speed = {m: float(np.median(effect[machine == m])) for m in present}
    reference = next((m for m in present if cells.table.machines[m] == cells.reference), present[0])
    slower = np.array([speed[m] - speed[reference] for m in machine])
    time = {name: t - slower for name, t in sweep.time.items()}
    if len(present) < POPULATION:
        return replace(sweep, time=time, strata=tuple(machine.tolist()))

    def by_machine(values: np.ndarray) -> np.ndarray:
        return np.stack([trimmed_mean(values[:, machine == m]) for m in present], axis=1)

    return replace(sweep, blocks=tuple(present.tolist()), space={n: by_machine(s) for n, s in sweep.space.items()},
                               time={n: by_machine(t) for n, t in time.items()})


@dataclass(frozen=True)
class Points:
    """Means of space and time of one variant, shaped (1 + 2 blocks, knob values). Row 0 is the data; in row 1 + b the means are
    moved towards block b, and in row 1 + blocks + b away from it, as far as the block's share in a mean reaches."""

    space: np.ndarray
    time: np.ndarray


def moved(sweep: Sweep) -> dict[str, Points]:
    """Points of every variant, moved by the same blocks."""
    effect = sweep.block_effect()

    def rows(logs: np.ndarray, mean: np.ndarray) -> np.ndarray:
        pull = (logs - mean[:, None]).T / np.sqrt(len(sweep.blocks))
        return np.exp(np.concatenate([mean[None, :], mean + pull, mean - pull]))

    # Trimming acts on times freed of the block's common slowness; the mean slowness is put back.
    return {name: Points(rows(sweep.space[name], trimmed_mean(sweep.space[name])), rows(time, trimmed_mean(time - effect) + effect.mean()))
            for name, time in sweep.time.items()}


def over_blocks(sweep: Sweep, rows: np.ndarray) -> list[Trimmed]:
    """The trimmed t over what the blocks say of each column of `rows`, machines being a factor. A column has a quantity that was computed from
    all rows of `Points`: a logarithm, or relative to its size. What a block says of it is its value, plus what moving towards the block and
    away from it makes of it. Of a mean this is the block's own value; of a ratio of two means the block's own ratio."""
    blocks = (len(rows) - 1) // 2
    said = rows[0] + np.sqrt(blocks) * (rows[1:1 + blocks] - rows[1 + blocks:]) / 2
    if not sweep.strata:
        return trimmed_columns(said)
    strata = np.array(sweep.strata)
    return [across([column[strata == m] for m in sorted(set(sweep.strata))]) for column in said.T]
