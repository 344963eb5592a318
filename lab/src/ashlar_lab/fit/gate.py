"""Whether the model may be believed. Every statement about a, b or c passes here first."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import ncfdtr, stdtrit

from ashlar_lab.fit.hyperbola import Hyperbola
from ashlar_lab.fit.trimmed import LEAST_BLOCKS, Estimate, trimmed_columns, trimmed_mean

# The tests ask whether the model is wrong by more than this, root mean square over the knob values, not whether it is
# exactly true: with enough blocks no model is. It is what a comparison calls a difference that matters.
MARGIN = 0.02
# How often chance alone may reject a model that is within the margin, in each of the two tests.
REJECT_BELOW_P = 0.01


@dataclass(frozen=True)
class Gate:
    """The verdict on one fit. `reason` is empty when the model stands; `rejected` tells a model that the data
    contradict from one that they cannot test, or that was not fitted."""

    rejected: bool
    reason: str
    p_value: float | None
    worst_misfit: float | None


def errors_of_means(log_space: np.ndarray, log_time: np.ndarray, effect: np.ndarray) -> tuple[float, float, int]:
    """Pooled relative standard errors of the trimmed means (space, time) and their degrees of freedom."""
    space, time = trimmed_columns(log_space.T), trimmed_columns((log_time - effect).T)
    if time[0].freedom < 1:
        return 0.0, 0.0, 0
    return *(float(np.sqrt(np.mean([t.error**2 for t in some]))) for some in (space, time)), sum(int(t.freedom) for t in time)


def judge(log_space: np.ndarray, log_time: np.ndarray, effect: np.ndarray, model: Hyperbola, space_unit: str = "") -> Gate:
    """Lack-of-fit F test against the pure error of repeats, monotonicity, then bounds.

    The misfit is tested as a noncentral F: its noncentrality is the one of a model that misses every point by `MARGIN`.
    """
    space_error, time_error, freedom = errors_of_means(log_space, log_time, effect)
    space = np.exp(trimmed_mean(log_space))
    log_mean = trimmed_mean(log_time - effect) + effect.mean()
    gap = space - model.c[0]
    predicted = model.a[0] + model.b[0] / gap
    misfit = log_mean - np.log(predicted)
    worst = float(np.abs(misfit).max())
    slope = model.b[0] / gap**2 * space / predicted
    points = len(space)
    p_value = None
    if points > 3 and freedom > 0 and time_error > 0:
        variance = time_error**2 + (slope * space_error) ** 2
        f_statistic = float((misfit**2 / variance).sum() / (points - 3))
        below = float(ncfdtr(points - 3, freedom, float((MARGIN**2 / variance).sum()), f_statistic))
        p_value = 1.0 if np.isnan(below) else 1 - below  # a misfit far within the margin underflows to nan
    untestable = _untestable(points, log_time.shape[1], space)
    contradictions = [] if untestable else [c for c in (_lack_of_fit(p_value, worst), _rise(space, log_mean, time_error, freedom, space_unit)) if c]
    reason = untestable or "; ".join(contradictions) or model.at_bound(float(space.min()))
    return Gate(bool(contradictions), reason, p_value, worst)


def undetermined(parameters: Mapping[str, Estimate], smallest_space: float) -> str:
    """Which parameter the data do not determine, as words: its 95 % interval reaches a bound of the model, so that an end of
    it would be the bound and not an estimate. Empty when all are."""
    for name, reached in (("a", parameters["a"].low <= 0), ("c", parameters["c"].low <= 0 or parameters["c"].high >= smallest_space),
                          ("b", parameters["b"].low <= 0)):
        if reached:
            return f"{name} is not determined: its 95 % interval reaches a bound of the model"
    return ""


def _untestable(points: int, blocks: int, space: np.ndarray) -> str:
    """Why these data cannot test the model; empty when they can."""
    if points < 4:
        return f"{points} knob values cannot test a model of three parameters; use 7 or more"
    if blocks < LEAST_BLOCKS:
        return f"{blocks} block{'s' if blocks > 1 else ''} cannot tell misfit from noise; 10 can"
    if space.max() / space.min() < 1.05:
        return "the knob hardly changes space (less than 5 %)"
    return ""


def _lack_of_fit(p_value: float | None, worst: float) -> str:
    if p_value is None or p_value >= REJECT_BELOW_P:
        return ""
    p = f"{p_value:.2g}" if p_value >= 1e-4 else "below 0.0001"
    return f"the lack-of-fit test rejects it (p {p}, points miss it by up to {100 * np.expm1(worst):.0f} %)"


def _rise(space: np.ndarray, log_mean: np.ndarray, time_error: float, freedom: int, space_unit: str) -> str:
    """Time that rises from any point to any clearly larger one, by more than the margin and than chance explains over
    all pairs of points (Bonferroni). Points of nearly equal space are left to the test of misfit."""
    larger = space[None, :] > 1.02 * space[:, None]
    rise = np.where(larger, log_mean[None, :] - log_mean[:, None], 0)
    chance = float(stdtrit(freedom, 1 - REJECT_BELOW_P / max(1, larger.sum()))) * np.sqrt(2) * time_error
    if rise.max() <= MARGIN + chance:
        return ""
    low, high = np.unravel_index(rise.argmax(), rise.shape)
    return f"time rises by {100 * np.expm1(rise.max()):.0f} % from {space[low]:.0f} to {space[high]:.0f} {space_unit}, which the model forbids"
