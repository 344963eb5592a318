"""Space-time curves of one program, with bands, and how any two of them compare."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ashlar_lab.experiment.model import Experiment
from ashlar_lab.fit import envelope, gate, hyperbola
from ashlar_lab.fit.cells import Cells
from ashlar_lab.fit.gate import MARGIN
from ashlar_lab.fit.sweep import REPLICATES, Sweep, resampled, sweep_of
from ashlar_lab.fit.trimmed import Estimate

GRID = 41
_TABLE_POINTS = 5
MODEL, ENVELOPE = "model", "envelope"


@dataclass(frozen=True)
class Point:
    """One knob value of one variant: trimmed means with block-bootstrap intervals."""

    value: str
    space: Estimate
    time: Estimate


@dataclass(frozen=True)
class Curve:
    """One variant's trade-off. `a`, `b`, `c` are present only when the gate let the model through."""

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
    replicates: object = field(default=None, repr=False, compare=False)


@dataclass(frozen=True)
class At:
    """A ratio at one place of the overlap."""

    place: float
    ratio: Estimate


@dataclass(frozen=True)
class Comparison:
    """`first` against `second`, only where both were measured. Ratios below 1 favour `first`.

    `better`, `worse` and `cross` are shares of block-bootstrap replicates: `first` below `second` at every space of the
    overlap, above at every space, or neither. `better_by_margin` asks for 2 % at every space.
    """

    program: str
    first: str
    second: str
    overlap: tuple[float, float] | None
    time_ratios: tuple[At, ...]
    space_ratios: tuple[At, ...]
    area: Estimate | None
    delta_a: Estimate | None
    delta_c: Estimate | None
    better: float
    better_by_margin: float
    worse: float
    worse_by_margin: float
    cross: float
    crossing: tuple[float, float] | None
    blocks: int
    note: str = ""


def interval_of(replicates: np.ndarray, n: int) -> Estimate:
    """Replicate 0 with the percentile interval of the others."""
    rest = replicates[1:][np.isfinite(replicates[1:])]
    if n < 2 or len(rest) < 0.5 * (len(replicates) - 1):
        return Estimate(float(replicates[0]), float("-inf"), float("inf"), n)
    low, high = np.percentile(rest, [2.5, 97.5])
    return Estimate(float(replicates[0]), float(low), float(high), n)


def curves_of(experiment: Experiment, cells: Cells, program: str, replicates: int = REPLICATES) -> tuple[list[Curve], list[Comparison]]:
    """All curves of one program and every comparison with the baseline."""
    sweep = sweep_of(experiment, cells, program)
    if sweep is None:
        return [], []
    points = resampled(sweep, experiment.seed, replicates)
    curves = {name: _curve(sweep, name, points[name]) for name in sweep.values}
    baseline = curves.get(experiment.baseline)
    comparisons = [compare(c, baseline, len(sweep.blocks)) for c in curves.values() if baseline is not None and c is not baseline]
    return list(curves.values()), comparisons


def _curve(sweep: Sweep, name: str, points) -> Curve:
    n = len(sweep.blocks)
    effect = sweep.block_effect()
    space_error, time_error, _ = gate.errors_of_means(sweep.space[name], sweep.time[name], effect)
    noise = (space_error, time_error) if time_error > 0 else (0.0, 1.0)
    reason, rejected, p_value, misfit, chosen, form = "", False, None, None, None, ENVELOPE
    if len(sweep.values[name]) >= 3:
        model = hyperbola.fit(points.space, points.time, *noise)
        verdict = gate.judge(sweep.space[name], sweep.time[name], effect, model, points.space.min(axis=1))
        reason, rejected, p_value, misfit = verdict.reason, verdict.rejected, verdict.p_value, verdict.worst_misfit
        if verdict.passed:
            chosen, form = model, MODEL
    else:
        reason = "two knob values make a line, not a model; use 7 or more"
    used = np.ones(len(sweep.values[name]), dtype=bool)
    if chosen is None:
        used = envelope.sensible(points.space[0], points.time[0], max(0.03, 3 * time_error))
        chosen = envelope.envelope(points.space[:, used], points.time[:, used])
    space = points.space[0][used]
    grid = np.geomspace(space.min(), space.max(), GRID)
    times = chosen.time(grid)
    low, high = np.percentile(times[1:], [2.5, 97.5], axis=0) if n > 1 else (times[0], times[0])
    parameters = {k: interval_of(getattr(chosen, k), n) if form == MODEL else None for k in "abc"}
    own = tuple(Point(value, interval_of(points.space[:, i], n), interval_of(points.time[:, i], n))
                for i, value in enumerate(sweep.values[name]))
    return Curve(sweep.program, name, form, rejected, reason, p_value, misfit, own, **parameters, grid_space=tuple(grid), grid_time=tuple(times[0]),
                 grid_low=tuple(low), grid_high=tuple(np.where(np.isfinite(high), high, times[0])), replicates=chosen)


def compare(first: Curve, second: Curve, n: int) -> Comparison:
    """`first` against `second` under the same resamples."""
    low = max(first.grid_space[0], second.grid_space[0])
    high = min(first.grid_space[-1], second.grid_space[-1])
    nothing = Comparison(first.program, first.variant, second.variant, None, (), (), None, None, None, 0, 0, 0, 0, 0, None, n)
    space_ratios = _space_ratios(first, second, n)
    deltas = {}
    if first.form == second.form == MODEL:
        deltas = {"delta_a": interval_of(first.replicates.a - second.replicates.a, n),
                  "delta_c": interval_of(first.replicates.c - second.replicates.c, n)}
    if high <= low * 1.02:
        less, more = (first, second) if first.grid_space[-1] < second.grid_space[-1] else (second, first)
        note = f"{less.variant} and {more.variant} have no space in common: {less.variant} stays below {less.grid_space[-1]:.0f} MiB"
        return dataclasses.replace(nothing, space_ratios=space_ratios, note=note, **deltas)
    grid = np.geomspace(low, high, GRID)
    logs = np.log(first.replicates.time(grid)) - np.log(second.replicates.time(grid))
    logs = np.where(np.isfinite(logs), logs, np.where(np.isnan(logs), 0.0, logs))
    inner = np.geomspace(low, high, _TABLE_POINTS)
    at = np.exp(np.log(first.replicates.time(inner)) - np.log(second.replicates.time(inner)))
    signs = logs[1:] if n > 1 else logs
    better, worse = (signs < 0).all(axis=1), (signs > 0).all(axis=1)
    return dataclasses.replace(
        nothing,
        overlap=(float(low), float(high)),
        time_ratios=tuple(At(float(s), interval_of(at[:, i], n)) for i, s in enumerate(inner)),
        space_ratios=space_ratios,
        area=interval_of(np.exp(np.where(np.isfinite(logs), logs, np.nan).mean(axis=1)), n),
        better=float(better.mean()), worse=float(worse.mean()), cross=float((~better & ~worse).mean()),
        better_by_margin=float((signs < np.log(1 - MARGIN)).all(axis=1).mean()),
        worse_by_margin=float((signs > -np.log(1 - MARGIN)).all(axis=1).mean()),
        crossing=_crossing(signs, grid),
        **deltas,
    )


def _crossing(signs: np.ndarray, grid: np.ndarray) -> tuple[float, float] | None:
    """Where curves cross, as the middle 95 % of the first crossing over the replicates that do; None if under 5 % do."""
    changed = (np.sign(signs[:, 1:]) * np.sign(signs[:, :-1])) < 0
    crossing = changed.any(axis=1)
    if crossing.mean() < 0.05:
        return None
    places = np.sqrt(grid[1:] * grid[:-1])[changed[crossing].argmax(axis=1)]
    return tuple(float(v) for v in np.percentile(places, [2.5, 97.5]))


def _space_ratios(first: Curve, second: Curve, n: int) -> tuple[At, ...]:
    """Space at equal time. Near the asymptote a the needed space runs away, so times within 5 % of either a are refused."""
    low = max(min(p.time.value for p in first.points), min(p.time.value for p in second.points))
    high = min(max(p.time.value for p in first.points), max(p.time.value for p in second.points))
    for curve in (first, second):
        if curve.form == MODEL:
            low = max(low, 1.05 * (curve.a.high if np.isfinite(curve.a.high) else curve.a.value))
    if high <= low * 1.02:
        return ()
    times = np.geomspace(low, high, _TABLE_POINTS)
    with np.errstate(invalid="ignore", divide="ignore"):
        ratios = first.replicates.space(times) / second.replicates.space(times)
    # A time that some resample of either curve never reaches has no ratio there; a few such resamples refuse it.
    reached = np.isfinite(ratios) & (ratios > 0)
    return tuple(At(float(t), interval_of(ratios[:, i], n)) for i, t in enumerate(times) if reached[0, i] and reached[:, i].mean() > 0.99)


def plain(curves: Sequence[Curve]) -> list[Curve]:
    """Without the replicates, which are big and can be made again from the store."""
    return [dataclasses.replace(c, replicates=None) for c in curves]
