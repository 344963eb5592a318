"""Space-time curves of one program, with bands, and how any two of them compare."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ashlar_lab.experiment.model import Experiment
from ashlar_lab.fit import envelope, gate, hyperbola
from ashlar_lab.fit.cells import Cells
from ashlar_lab.fit.floor import floor_of, within_noise
from ashlar_lab.fit.gate import MARGIN
from ashlar_lab.fit.sweep import Points, Sweep, moved, over_blocks, sweep_of
from ashlar_lab.fit.trimmed import Estimate, Trimmed, exp_estimate
from ashlar_lab.metrics import unit_of

GRID = 41
_TABLE_POINTS = 5
MODEL, ENVELOPE = "model", "envelope"
# What is said of two curves is said when chance has less than this part in it: one side of a 95 % interval.
SHOWN_BELOW_P = 0.025


@dataclass(frozen=True)
class Point:
    """One knob value of one variant: trimmed means with t intervals over blocks."""

    value: str
    space: Estimate
    time: Estimate


@dataclass(frozen=True)
class Curve:
    """One variant's trade-off. `a`, `b`, `c` are present only when the gate let the model through. The band, `grid_low` to `grid_high`, is infinite
    where there is no interval."""

    program: str
    variant: str
    form: str
    rejected: bool
    reason: str
    p_value: float | None
    worst_misfit: float | None
    points: tuple[Point, ...]
    a: Estimate | None
    b: Estimate | None
    c: Estimate | None
    grid_space: tuple[float, ...]
    grid_time: tuple[float, ...]
    grid_low: tuple[float, ...]
    grid_high: tuple[float, ...]
    moved: object = field(default=None, repr=False, compare=False)  # the curve in all rows of `Points`


@dataclass(frozen=True)
class At:
    """A ratio at one place of the overlap; `unit` is the place's."""

    place: float
    unit: str
    ratio: Estimate


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """`first` against `second`, only where both were measured. Ratios below 1 favour `first`.

    `better_p` is the chance of data that speak so clearly for `first` being below `second` at every space of the overlap if at
    some space it is not; `worse_p` the same for above, and `by_margin` asks for 2 %. `cross_p` is that of data that speak so
    clearly for a crossing if there is none. `floor` is how far the A/A arm differs from 1, and `within_noise` says that somewhere the
    curves are no further apart.
    """

    program: str
    first: str
    second: str
    overlap: tuple[float, float] | None = None
    time_ratios: tuple[At, ...] = ()
    space_ratios: tuple[At, ...]
    area: Estimate | None = None
    delta_a: Estimate | None = None
    delta_c: Estimate | None = None
    better_p: float = 1
    better_by_margin_p: float = 1
    worse_p: float = 1
    worse_by_margin_p: float = 1
    cross_p: float = 1
    crossing: tuple[float, float] | None = None
    blocks: int
    space_unit: str
    note: str = ""
    floor: float = 0.0
    within_noise: bool = False

    def better(self) -> bool:
        """Whether the 95 % interval is below 1 at every space, and the ratio further from 1 than the noise floor."""
        return self.better_p < SHOWN_BELOW_P and not self.within_noise

    def worse(self) -> bool:
        return self.worse_p < SHOWN_BELOW_P and not self.within_noise

    def crosses(self) -> bool:
        return self.cross_p < SHOWN_BELOW_P and self.crossing is not None


def curves_of(experiment: Experiment, cells: Cells, program: str) -> tuple[list[Curve], list[Comparison]]:
    """All curves of one program and every comparison with the baseline."""
    sweep = sweep_of(experiment, cells, program)
    if sweep is None:
        return [], []
    floor = floor_of(experiment, cells, experiment.time_metric)
    units = unit_of(experiment.time_metric).symbol, unit_of(experiment.space_metric).symbol
    points = moved(sweep)
    curves = {name: _curve(sweep, name, points[name], *units) for name in sweep.values}
    baseline = curves.get(experiment.baseline)
    comparisons = [compare(sweep, c, baseline, floor) for c in curves.values() if baseline is not None and c is not baseline]
    # Without the moved curves, which are big and can be made again from the store.
    return [replace(c, moved=None) for c in curves.values()], comparisons


def _ratio(sweep: Sweep, logs: np.ndarray, unit: str = "") -> Estimate:
    """Of logarithms in all rows of the points: the estimate of their exponential."""
    return exp_estimate(*over_blocks(sweep, logs[:, None]), unit)


def _plain(sweep: Sweep, rows: np.ndarray, unit: str) -> Estimate:
    """Of values in all rows of the points."""
    size = abs(float(rows[0])) or 1.0
    (t,) = over_blocks(sweep, rows[:, None] / size)
    return t.estimate(unit, size)


def _curve(sweep: Sweep, name: str, points: Points, time_unit: str, space_unit: str) -> Curve:
    effect = sweep.block_effect()
    space_error, time_error, _ = gate.errors_of_means(sweep.space[name], sweep.time[name], effect)
    noise = (space_error, time_error) if time_error > 0 else (0.0, 1.0)
    verdict = gate.Gate(False, "two knob values make a line, not a model; use 7 or more", None, None)
    if len(sweep.values[name]) >= 3:
        chosen = hyperbola.fit(points.space, points.time, *noise)
        verdict = gate.judge(sweep.space[name], sweep.time[name], effect, chosen, space_unit)
    reason = verdict.reason
    if not reason:
        parameters = {k: _plain(sweep, getattr(chosen, k), unit) for k, unit in zip("abc", (time_unit, f"{time_unit}·{space_unit}", space_unit))}
        reason = gate.undetermined(parameters, float(points.space[0].min()))
    used = np.ones(len(sweep.values[name]), dtype=bool)
    if reason:
        parameters = dict.fromkeys("abc")
        used = envelope.sensible(points.space[0], points.time[0], max(0.03, 3 * time_error))
        chosen = envelope.envelope(points.space[:, used], points.time[:, used])
    space = points.space[0][used]
    grid = np.geomspace(space.min(), space.max(), GRID)
    with np.errstate(invalid="ignore"):
        times = chosen.time(grid)
        band = [exp_estimate(t) for t in over_blocks(sweep, np.log(times))]
    own = tuple(Point(value, _ratio(sweep, np.log(points.space[:, i]), space_unit), _ratio(sweep, np.log(points.time[:, i]), time_unit))
                for i, value in enumerate(sweep.values[name]))
    return Curve(sweep.program, name, ENVELOPE if reason else MODEL, verdict.rejected, reason, verdict.p_value, verdict.worst_misfit, own, **parameters,
                 grid_space=tuple(grid), grid_time=tuple(times[0]), grid_low=tuple(e.low for e in band), grid_high=tuple(e.high for e in band), moved=chosen)


def compare(sweep: Sweep, first: Curve, second: Curve, floor: float = 0.0) -> Comparison:
    """`first` against `second`, moved by the same blocks."""
    time_unit, space_unit = second.points[0].time.unit, second.points[0].space.unit
    low = max(first.grid_space[0], second.grid_space[0])
    high = min(first.grid_space[-1], second.grid_space[-1])
    known = {"program": first.program, "first": first.variant, "second": second.variant, "space_ratios": _space_ratios(sweep, first, second),
             "blocks": len(sweep.blocks), "space_unit": space_unit, "floor": floor}
    if first.form == second.form == MODEL:
        known |= {"delta_a": _plain(sweep, first.moved.a - second.moved.a, time_unit), "delta_c": _plain(sweep, first.moved.c - second.moved.c, space_unit)}
    if high <= low * 1.02:
        less, more = (first, second) if first.grid_space[-1] < second.grid_space[-1] else (second, first)
        note = f"{less.variant} and {more.variant} have no space in common: {less.variant} stays below {less.grid_space[-1]:.0f} {space_unit}"
        return Comparison(**known, note=note)

    def logs(spaces: np.ndarray) -> np.ndarray:
        with np.errstate(invalid="ignore"):
            return np.log(first.moved.time(spaces)) - np.log(second.moved.time(spaces))

    grid, inner = np.geomspace(low, high, GRID), np.geomspace(low, high, _TABLE_POINTS)
    over_grid = logs(grid)
    at, few = over_blocks(sweep, over_grid), over_blocks(sweep, logs(inner))
    return Comparison(
        **known,
        overlap=(float(low), float(high)),
        time_ratios=tuple(At(float(s), space_unit, exp_estimate(t)) for s, t in zip(inner, few)),
        area=_ratio(sweep, over_grid.mean(axis=1)),
        better_p=max(t.p_not_below(0.0) for t in at), worse_p=max(t.negated().p_not_below(0.0) for t in at),
        better_by_margin_p=max(t.p_not_below(math.log(1 - MARGIN)) for t in at),
        worse_by_margin_p=max(t.negated().p_not_below(math.log(1 - MARGIN)) for t in at),
        cross_p=_cross_p(few, floor),
        crossing=_crossing(at, grid),
        within_noise=within_noise([t.mean for t in at], floor),
    )


def _cross_p(places: Sequence[Trimmed], floor: float) -> float:
    """Below somewhere and above somewhere else: the less clear of the two, each over all places (Bonferroni). Places where the
    curves are no further apart than the noise floor show nothing."""
    apart = [t for t in places if not within_noise([t.mean], floor)]
    below, above = (min((t.p_not_below(0.0) for t in side), default=1.0) for side in (apart, [t.negated() for t in apart]))
    return min(1.0, len(places) * max(below, above))


def _crossing(at: Sequence[Trimmed], grid: np.ndarray) -> tuple[float, float] | None:
    """Where the curves may cross: from where the 95 % interval first reaches zero to where it last does, between a place that is
    surely on one side and one that is surely on the other. None where no two such places are."""
    means, halves = np.array([t.mean for t in at]), np.array([t.half_width() for t in at])
    sure = np.flatnonzero(np.abs(means) > halves)
    turns = [(i, j) for i, j in zip(sure, sure[1:]) if means[i] * means[j] < 0]
    if not turns:
        return None

    def reached(inner: int, outer: int) -> float:
        """Where the interval reaches zero between a sure place and the next."""
        clear = np.sign(means[inner]) * means[[inner, outer]] - halves[[inner, outer]]
        share = clear[0] / (clear[0] - clear[1])
        return float(np.exp(np.log(grid[inner]) + share * (np.log(grid[outer]) - np.log(grid[inner]))))

    first, last = turns[0][0], turns[-1][1]
    return reached(first, first + 1), reached(last, last - 1)


def _space_ratios(sweep: Sweep, first: Curve, second: Curve) -> tuple[At, ...]:
    """Space at equal time. Near the asymptote a the needed space runs away, so times within 5 % of either a are refused."""
    low = max(min(p.time.value for p in first.points), min(p.time.value for p in second.points))
    high = min(max(p.time.value for p in first.points), max(p.time.value for p in second.points))
    for curve in (first, second):
        if curve.form == MODEL:
            low = max(low, 1.05 * (curve.a.high if math.isfinite(curve.a.high) else curve.a.value))
    if high <= low * 1.02:
        return ()
    times = np.geomspace(low, high, _TABLE_POINTS)
    with np.errstate(invalid="ignore", divide="ignore"):
        logs = np.log(first.moved.space(times)) - np.log(second.moved.space(times))
    # A time that either curve does not reach when a block moves it has no ratio there.
    return tuple(At(float(t), second.points[0].time.unit, _ratio(sweep, column)) for t, column in zip(times, logs.T) if np.isfinite(column).all())
