"""One estimate from several machines: the machine as a factor. docs/design/lab-machines.md says why.

From `POPULATION` machines on, each machine gives one number, its trimmed mean, and the interval is the trimmed t over these numbers. With
fewer, the estimate is the mean of these machines, with the errors within each added in squares; if they contradict each other, the t over
the machines is taken all the same, since then there is no such mean.
"""

import math
from collections.abc import Collection, Sequence

import numpy as np
from scipy.special import stdtrit

from ashlar_lab.fit.gate import MARGIN
from ashlar_lab.fit.trimmed import Trimmed, mean, of_means, summed, trimmed, trimmed_mean

# Machines that can stand for others. With five a fifth, one of them, is trimmed on each side.
POPULATION = 5
# How often chance alone may call machines different that are not, over all pairs of machines of one comparison.
DIFFER_BELOW_P = 0.01


def across(groups: Sequence[Sequence[float]]) -> Trimmed:
    """The mean over machines with its error. `groups` has each machine's values, one per block; logarithms as a rule."""
    count = sum(map(len, groups))
    if len(groups) >= POPULATION:
        return of_means(means(groups), count)
    parts = [trimmed(g) for g in groups]
    if len(parts) == 1:
        return parts[0]
    return mean(parts) if agree(groups) else of_means([p.mean for p in parts], count)


def agree(groups: Collection[Sequence[float]]) -> bool:
    """Whether a few machines are known to say one thing, so that they have a mean whose error is made of theirs."""
    parts = [trimmed(g) for g in groups]
    return all(p.freedom >= 1 for p in parts) and not differ(parts)


def means(groups: Sequence[Sequence[float]]) -> list[float]:
    """The trimmed mean of each group; groups of one size are done together, as a thousand machines have few sizes."""
    sizes = np.array([len(g) for g in groups])
    found = np.empty(len(groups))
    for size in np.unique(sizes):
        own = np.flatnonzero(sizes == size)
        found[own] = trimmed_mean(np.stack([groups[i] for i in own]))
    return found.tolist()


def differ(parts: Sequence[Trimmed]) -> bool:
    """Whether any two machines differ by more than the margin and than chance explains."""
    pairs = len(parts) * (len(parts) - 1) // 2
    return any(apart(a, b, DIFFER_BELOW_P / pairs) for i, a in enumerate(parts) for b in parts[:i])


def apart(a: Trimmed, b: Trimmed, p: float) -> bool:
    """Whether two estimates of logarithms differ by more than the margin, and by more than chance at `p` (Welch)."""
    gap = summed([a, b.negated()])
    if abs(gap.mean) <= math.log1p(MARGIN) or gap.freedom < 1:
        return False
    return abs(gap.mean) > float(stdtrit(gap.freedom, 1 - p / 2)) * gap.error
