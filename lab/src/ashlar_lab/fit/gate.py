"""Whether the model may be believed. Every statement about a, b or c passes here first."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ashlar_lab.fit.hyperbola import Hyperbola
from ashlar_lab.fit.sweep import trimmed_mean

# A rejection needs both: a misfit that chance would give once in a hundred times, and one large enough to matter
# beside the few per cent by which parameters are known at all. The misfit is printed either way.
REJECT_BELOW_P = 0.01
TOLERATED_MISFIT = 0.06


@dataclass(frozen=True)
class Gate:
    """The verdict on one fit. `reason` is empty when the model stands; `rejected` tells a model that the data
    contradict from one that they cannot test."""

    passed: bool
    rejected: bool
    reason: str
    f_statistic: float | None
    p_value: float | None
    worst_misfit: float
    space_error: float
    time_error: float


def errors_of_means(log_space: np.ndarray, log_time: np.ndarray, effect: np.ndarray) -> tuple[float, float, int]:
    """Pooled relative standard errors of the trimmed means (space, time) and their degrees of freedom."""
    n = log_time.shape[1]
    cut = int(0.2 * n)
    kept = n - 2 * cut
    if kept < 2:
        return 0.0, 0.0, 0

    def error(values: np.ndarray) -> float:
        ordered = np.sort(values, axis=1)
        winsorised = np.clip(values, ordered[:, [cut]], ordered[:, [n - cut - 1]])
        squares = ((winsorised - winsorised.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)
        return float(np.sqrt((squares / (kept * (kept - 1))).mean()))

    return error(log_space), error(log_time - effect), log_time.shape[0] * (kept - 1)


def judge(log_space: np.ndarray, log_time: np.ndarray, effect: np.ndarray, model: Hyperbola) -> Gate:
    """Lack-of-fit F test against the pure error of repeats, then monotonicity, then bounds."""
    space_error, time_error, freedom = errors_of_means(log_space, log_time, effect)
    space = np.exp(trimmed_mean(log_space))
    log_mean = trimmed_mean(log_time - effect) + effect.mean()
    gap = space - model.c[0]
    predicted = model.a[0] + model.b[0] / gap
    misfit = log_mean - np.log(predicted)
    worst = float(np.abs(misfit).max())
    slope = model.b[0] / gap**2 * space / predicted
    points = len(space)
    f_statistic = p_value = None
    if points > 3 and freedom > 0 and time_error > 0:
        from scipy.special import fdtrc

        variance = time_error**2 + (slope * space_error) ** 2
        f_statistic = float((misfit**2 / variance).sum() / (points - 3))
        p_value = float(fdtrc(points - 3, freedom, f_statistic))
    reason = _reason(points, freedom, p_value, worst, space, log_mean, time_error, model)
    untestable = points < 4 or freedom < 1
    return Gate(not reason, bool(reason) and not untestable, reason, f_statistic, p_value, worst, space_error, time_error)


def _reason(points, freedom, p_value, worst, space, log_mean, time_error, model) -> str:
    if points < 4:
        return f"{points} knob values cannot test a model of three parameters; use 7 or more"
    if freedom < 1:
        return "a single block cannot tell misfit from noise; use 10 blocks"
    if space.max() / space.min() < 1.05:
        return "the knob hardly changes space (less than 5 %)"
    # Rise from any point to any clearly larger one; points of nearly equal space are left to the test of misfit.
    rise = np.where(space[None, :] > 1.02 * space[:, None], log_mean[None, :] - log_mean[:, None], 0)
    if rise.max() > max(0.03, 3 * time_error):
        low, high = np.unravel_index(rise.argmax(), rise.shape)
        return f"time rises by {100 * np.expm1(rise.max()):.0f} % from {space[low]:.0f} to {space[high]:.0f} MiB, which the model forbids"
    if p_value is not None and p_value < REJECT_BELOW_P and worst > TOLERATED_MISFIT:
        p = f"{p_value:.2g}" if p_value >= 1e-4 else "below 0.0001"
        return f"the lack-of-fit test rejects it (p {p}, points miss it by up to {100 * np.expm1(worst):.0f} %)"
    return model.at_bound(float(space.min()))
