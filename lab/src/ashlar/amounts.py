"""Estimates from samples, and how amounts of memory and counts are written.

A mark falls on each byte with the same small probability, once in `period` bytes on average. So an object of b bytes is a sample
with probability p = 1 − exp(−b / period), and the sample stands for 1/p objects and b/p bytes. Samples are independent of each
other: the variance of a sum of weights w is the sum of (1 − p) w² over the samples (the estimator of Horvitz and Thompson, 1952).
"""

import math
import time
from typing import NamedTuple


class Estimate(NamedTuple):
    """A sum estimated from samples, with the variance of the estimate."""

    value: float
    variance: float

    @property
    def error(self) -> float:
        """Half the width of the 95 % interval."""
        return 1.96 * math.sqrt(max(self.variance, 0.0))


def probability(size_bytes: float, period_bytes: float) -> float:
    """That an object of this size is a sample."""
    return -math.expm1(-size_bytes / period_bytes)


def variances(size_bytes: float, period_bytes: float) -> tuple[float, float]:
    """What one sample of this size adds to the variance of a number of objects, and of a number of bytes."""
    size = max(float(size_bytes), 1.0)
    p = probability(size, period_bytes)
    of_objects = (1 - p) / p ** 2
    return of_objects, of_objects * size ** 2


_UNITS = (("GiB", 2 ** 30), ("MiB", 2 ** 20), ("KiB", 2 ** 10), ("bytes", 1))


def memory(size_bytes: float, error: float | None = None) -> str:
    """`12.5 MiB`, or `12.5 ± 3.1 MiB`."""
    largest = max(abs(size_bytes), error or 0.0)
    name, unit = next((u for u in _UNITS if largest >= u[1]), _UNITS[-1])
    if unit == 1 and error is None:
        return f"{size_bytes:.0f} bytes"
    return _written(size_bytes / unit, None if error is None else error / unit) + f" {name}"


def setting(size_bytes: int) -> str:
    """`512 KiB`, a number that somebody chose, in full."""
    name, unit = next((u for u in _UNITS if size_bytes >= u[1]), _UNITS[-1])
    return f"{size_bytes / unit:.6g} {name}"


def count(number: float, error: float | None = None) -> str:
    """`1,230`, or `24,600 ± 8,800`: rounded to two digits of the error, or to three of its own."""
    least = abs(number) / 10 if error is None else error
    unit = 10 ** max(math.floor(math.log10(least)) - 1, 0) if least >= 1 else 1
    text = f"{round(number / unit) * unit:,}"
    return text if error is None else f"{text} ± {round(error / unit) * unit:,}"


def _written(value: float, error: float | None) -> str:
    """With the digits that the error leaves, or three."""
    about = abs(value) if error is None else max(error, abs(value) / 1000)
    places = 0 if about >= (99.5 if error is None else 9.95) else 1 if about >= (9.95 if error is None else 0.995) else 2
    text = f"{value:,.{places}f}"
    return text if error is None else f"{text} ± {error:,.{places}f}"


def duration(ns: float) -> str:
    """`1.23 ms`, `45 µs`, `2.1 s`."""
    for name, unit in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if ns >= unit:
            return f"{ns / unit:.3g} {name}" if ns < 1000 * unit else f"{ns / unit:,.0f} {name}"
    return f"{ns:.0f} ns"


def moment(unix_s: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(unix_s))


def percent(part: float, whole: float, places: int = 0) -> str:
    return f"{100 * part / whole:.{places}f} %" if whole else "–"
