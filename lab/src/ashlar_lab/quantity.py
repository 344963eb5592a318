"""What a metric is a quantity of. The unit is the end of its name (`cpu_s`, `pause_ms_max`), is read here alone, and goes with every
estimate that is made of it.
"""

from __future__ import annotations

from dataclasses import dataclass

TIME, MEMORY, RATE = "time", "memory", "rate"
_QUALIFIERS = ("max", "min", "mean", "median", "total")


@dataclass(frozen=True)
class Unit:
    """`size` is how many seconds, or bytes, it is; `kind` is empty for a plain count."""

    symbol: str
    kind: str
    size: float

    def in_(self, other: "Unit") -> float:
        """What a value of this unit is multiplied by to be in the other one."""
        if self.kind != other.kind or not self.kind:
            raise ValueError(f"{self.symbol or 'a count'} cannot be given in {other.symbol or 'counts'}")
        return self.size / other.size


COUNT = Unit("", "", 1)
_UNITS = {"s": Unit("s", TIME, 1), "ms": Unit("ms", TIME, 1e-3), "us": Unit("µs", TIME, 1e-6), "ns": Unit("ns", TIME, 1e-9),
          "mib": Unit("MiB", MEMORY, 2**20), "kib": Unit("KiB", MEMORY, 2**10), "bytes": Unit("bytes", MEMORY, 1)}
SUFFIXES = frozenset(_UNITS)


def unit_of(metric: str) -> Unit:
    if metric.endswith("_per_s"):
        return Unit("1/s", RATE, 1)
    for part in reversed(metric.split("_")):
        if part in _UNITS:
            return _UNITS[part]
        if part not in _QUALIFIERS:
            break
    return COUNT
