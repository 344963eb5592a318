"""What the samples of one line say about its growth between two profiles, and how likely chance alone would say as much."""

import math
from collections import Counter
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

from ashlar.amounts import Estimate
from ashlar.heap.image import Sample
from ashlar.heap.profile import Profile

ERROR_RATE = 0.05


class Evidence(NamedTuple):
    """What the samples of one line say. `growth` is that of live bytes. `came` and `went` are the live samples that only the second and
    only the first profile has; `early` and `late` are those that came and were found live by the last full collection, made in the first
    and the second half of the interval before it; `old` were old in the first profile, and `old_gone` of them are gone."""

    growth: Estimate
    objects: Estimate
    came: int
    went: int
    early: int
    late: int
    old: int
    old_gone: int

    @property
    def found_live(self) -> int:
        """Of those that came."""
        return self.early + self.late


def of_line(before: Profile, after: Profile, span: int, same_process: bool, first: Sequence[Sample], second: Sequence[Sample]) -> Evidence:
    """`first` and `second` are the line's live samples in each profile, `span` is that of `Difference`."""
    went, came = (_beyond(before, first, after, second), _beyond(after, second, before, first)) if same_process else (first, second)
    full = after.image.full_collection
    found_live = [s for s in came if s.collection < full]
    early = sum(s.collection < full - span / 2 for s in found_live) if span > 0 else 0
    old, gone = _older_half(before, first), set(map(id, went))
    objects, size = (Estimate(new.value - lost.value, new.variance + lost.variance) for new, lost in zip(after.sum(came)[1:], before.sum(went)[1:]))
    return Evidence(size, objects, len(came), len(went), early, len(found_live) - early, len(old), sum(id(s) in gone for s in old))


def _older_half(p: Profile, samples: Sequence[Sample]) -> list[Sample]:
    """The samples that survived most collections, at least one."""
    least = max(1, median(map(p.age, samples))) if samples else 0
    return [s for s in samples if p.age(s) >= least]


def _beyond(p: Profile, samples: Sequence[Sample], other: Profile, others: Sequence[Sample]) -> list[Sample]:
    """Of a profile the samples that the other one does not have."""
    left, found = Counter(_key(other, s) for s in others), []
    for sample in samples:
        left[key := _key(p, sample)] -= 1
        if left[key] < 0:
            found.append(sample)
    return found


def _key(p: Profile, s: Sample) -> tuple:
    """What stays the same of a sample as long as it lives; its address may not."""
    return p.sites[s.site].key, s.collection, s.size_bytes, s.made_ms


# ── Chance ─────────────────────────────────────────────────────────────────

def sign_p(more: int, less: int) -> float:
    """That of so many tosses of a coin at least `more` fall on its side: the binomial distribution's tail, as an incomplete beta function."""
    return _beta_below(0.5, more, less + 1) if more else 1.0


def above(yes: int, no: int, share: float) -> float:
    """The posterior probability, with Jeffreys's prior, that the share of yes is above this one."""
    return 1.0 - _beta_below(share, yes + 0.5, no + 0.5)


def _beta_below(x: float, a: float, b: float) -> float:
    """The incomplete beta function, regularised, by Lentz's continued fraction."""
    if x > (a + 1) / (a + b + 2):
        return 1.0 - _beta_below(1 - x, b, a)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)) / a
    fraction, c, d, m = 1.0, 1.0, 0.0, 0
    while True:
        j = m // 2
        numerator = 1.0 if m == 0 else j * (b - j) * x / ((a + 2 * j - 1) * (a + 2 * j)) if m % 2 == 0 else -(a + j) * (a + b + j) * x / ((a + 2 * j) * (a + 2 * j + 1))
        d, c, m = 1.0 / (1.0 + numerator * d), 1.0 + numerator / c, m + 1
        fraction *= c * d
        if m > 1 and abs(c * d - 1.0) < 1e-15 or m > 10_000:
            return front * (fraction - 1.0)


def corrected(tests: Sequence[tuple[float, int]]) -> list[float]:
    """Holm's p values. Tests whose few samples could never show anything count for nothing (Tarone 1990)."""
    floors = sorted((0.5 ** n for _, n in tests if n))
    counted = next((k for k in range(1, len(floors) + 1) if sum(f <= ERROR_RATE / k for f in floors) <= k), max(len(floors), 1))
    able = [i for i, (_, n) in enumerate(tests) if n and 0.5 ** n <= ERROR_RATE / counted]
    found, largest = [1.0] * len(tests), 0.0
    for rank, i in enumerate(sorted(able, key=lambda i: tests[i][0])):
        largest = max(largest, min(1.0, tests[i][0] * (len(able) - rank)))
        found[i] = largest
    return found
