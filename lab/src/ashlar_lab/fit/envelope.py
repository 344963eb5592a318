"""The monotone envelope: what is said of a curve when no model holds.

More space never has to cost more time, because the smaller setting stays available. So settings that are clearly
dominated are left out, and the other times, ordered by space, are pooled into the nearest falling sequence (isotonic
regression), which evens out noise, and joined by straight lines in the logarithms.
"""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Envelope:
    """Falling sequences of (log space, log time), shaped (fits, points), spaces ascending."""

    log_space: np.ndarray
    log_time: np.ndarray

    def time(self, space: np.ndarray) -> np.ndarray:
        wanted = np.log(np.atleast_1d(space))
        return np.exp(np.array([np.interp(wanted, s, t) for s, t in zip(self.log_space, self.log_time)]))

    def space(self, time: np.ndarray) -> np.ndarray:
        """The least space that reaches each time; infinite where no measured point is that fast."""
        wanted = np.log(np.atleast_1d(time))
        found = np.empty((len(self.log_space), len(wanted)))
        for row, (s, t) in enumerate(zip(self.log_space, self.log_time)):
            # interp wants ascending times; of equal times the smaller space counts
            order = np.lexsort((-s, t))
            found[row] = np.interp(wanted, t[order], s[order], left=np.inf)
        return np.exp(found)


def envelope(space: np.ndarray, time: np.ndarray) -> Envelope:
    order = np.argsort(space, axis=1)
    s = np.log(np.take_along_axis(space, order, axis=1))
    t = np.log(np.take_along_axis(time, order, axis=1))
    return Envelope(s, np.array([falling(row) for row in t]))


def sensible(space: np.ndarray, time: np.ndarray, tolerance: float) -> np.ndarray:
    """Which of the points (one-dimensional) somebody might choose: not those that another beats by more than
    `tolerance` in time without needing more than one per cent more space."""
    faster = time[None, :] < time[:, None] * (1 - tolerance)
    no_larger = space[None, :] <= space[:, None] * 1.01
    return ~(faster & no_larger).any(axis=1)


def falling(values: np.ndarray) -> np.ndarray:
    """The non-increasing sequence nearest to `values` in squares."""
    from scipy.optimize import isotonic_regression

    return isotonic_regression(values, increasing=False).x
