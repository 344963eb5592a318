"""The three-parameter model (time − a)(space − c) = b.

A tracing collector's time is proportional to the number of cycles, that is to 1/G with G the garbage per cycle,
and its space is G plus a constant. So time = a + b/(space − c): `a` is the time without collection, `c` the space
of live data and fragmentation, `b` what a cycle costs. Source: "The not-so-simple task of comparing two memory
allocators" (Jane Street, 2020).

For each c the best a and b follow from a linear regression, so c is scanned and nothing can diverge.
"""

from dataclasses import dataclass

import numpy as np

# c is scanned as smallest space × (1 − u); the ends of u are bounds of the model, not answers.
_U_LOW, _U_HIGH = 1e-3, 1.0


@dataclass(frozen=True)
class Hyperbola:
    """Parameters of many fits at once, each shaped (fits,): a in the unit of time, c in that of space, b in their product."""

    a: np.ndarray
    b: np.ndarray
    c: np.ndarray

    def time(self, space: np.ndarray) -> np.ndarray:
        """The time at each space, shaped (fits, points); infinite where space is not above c."""
        gap = np.atleast_1d(space)[None, :] - self.c[:, None]
        return np.where(gap > 0, self.a[:, None] + self.b[:, None] / np.where(gap > 0, gap, 1), np.inf)

    def space(self, time: np.ndarray) -> np.ndarray:
        gap = np.atleast_1d(time)[None, :] - self.a[:, None]
        return np.where(gap > 0, self.c[:, None] + self.b[:, None] / np.where(gap > 0, gap, 1), np.inf)

    def at_bound(self, smallest_space: float) -> str:
        """Which bound the first fit hit, as words; empty when none."""
        if self.b[0] <= 1e-9 * max(self.a[0], 1e-12) * smallest_space:
            return "time does not fall with space (b is zero)"
        if self.a[0] <= 0:
            return "the time without collection comes out as zero (a)"
        u = 1 - self.c[0] / smallest_space
        if u <= _U_LOW * 1.02:
            return "the least space (c) is pressed against the smallest measured space"
        if u >= _U_HIGH * 0.999:
            return "the least space comes out as zero (c)"
        return ""


def fit(space: np.ndarray, time: np.ndarray, space_noise: float = 0.0, time_noise: float = 1.0) -> Hyperbola:
    """Least squares of relative errors, many at once; arrays are shaped (fits, points).

    `space_noise` and `time_noise` are relative standard errors of the points. Where space is noisy its error is
    carried over to time through the slope (effective variance); only their ratio matters.
    """
    first = _scan(space, time, 1 / time**2)
    gap = space - first.c[:, None]
    predicted = first.a[:, None] + first.b[:, None] / gap
    slope = first.b[:, None] / gap**2
    variance = (predicted * time_noise) ** 2 + (slope * space * space_noise) ** 2
    return _scan(space, time, 1 / variance)


def _scan(space: np.ndarray, time: np.ndarray, weight: np.ndarray) -> Hyperbola:
    smallest = space.min(axis=1)
    low, high = np.full(len(space), _U_LOW), np.full(len(space), _U_HIGH)
    for steps in (60, 24, 24):
        u = low[:, None] * (high / low)[:, None] ** np.linspace(0, 1, steps)[None, :]
        c = smallest[:, None] * (1 - u)
        a, b, error = _linear(space, time, weight, c)
        best = error.argmin(axis=1)
        rows = np.arange(len(space))
        low, high = u[rows, np.maximum(best - 1, 0)], u[rows, np.minimum(best + 1, steps - 1)]
    return Hyperbola(a[rows, best], b[rows, best], c[rows, best])


def _linear(space: np.ndarray, time: np.ndarray, weight: np.ndarray, c: np.ndarray):
    """Weighted regression of time on 1/(space − c) for every c, with a ≥ 0 and b ≥ 0."""
    x = 1 / (space[:, None, :] - c[:, :, None])
    w, y = weight[:, None, :], time[:, None, :]
    total = w.sum(axis=2)
    mean_x, mean_y = (w * x).sum(axis=2) / total, (w * y).sum(axis=2) / total
    dx, dy = x - mean_x[:, :, None], y - mean_y[:, :, None]
    with np.errstate(invalid="ignore"):  # where all spaces are one
        b = np.maximum((w * dx * dy).sum(axis=2) / (w * dx * dx).sum(axis=2), 0)
    a = mean_y - b * mean_x
    through_zero = (w * x * y).sum(axis=2) / (w * x * x).sum(axis=2)
    b = np.where(a < 0, through_zero, b)
    a = np.maximum(a, 0)
    error = (w * (y - a[:, :, None] - b[:, :, None] * x) ** 2).sum(axis=2)
    return a, b, error
