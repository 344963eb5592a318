"""The live numbers as OpenMetrics text, version 1.0, that the older Prometheus text format can be read from as well.

So only gauges, counters and summaries are used, and no timestamps: a node exporter's textfile collector reads the older format.
`ruby/lib/ashlar/metrics.rb` serves the same names from inside a process.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ashlar import files
from ashlar.heap.image import NUMBERS
from ashlar.heap.top import Reading


class _Family(NamedTuple):
    """A name, its type, what it means, and which of the image's numbers it is; seconds are ns there."""

    name: str
    type: str
    help: str
    number: str

    @property
    def unit(self) -> str:
        """What its name ends in."""
        end = self.name.rpartition("_")[2]
        return end if end in ("bytes", "seconds") else ""


def _family(number: str, kind: str) -> _Family:
    """The family of a number of the image. "minor_count" counts collections there."""
    name = number.replace("_ns", "_seconds").replace("_count", "_collections")
    return _Family(f"ashlar_{name}", kind, NUMBERS[number][0].upper() + NUMBERS[number][1:], number)


_RESIDENT, _PAUSE = "ashlar_resident_bytes", "ashlar_pause_seconds"
_GAUGES = ("live_bytes", "cell_bytes", "payload_bytes", "external_bytes", "cell_block_bytes", "payload_block_bytes", "hole_bytes", "spare_bytes", "live_cells",
           "old_cells", "memory_limit_bytes", "nursery_bytes", "fresh_bytes")
_COUNTERS = ("allocated_bytes", "allocated_objects", "minor_count", "major_count", "full_count", "collector_ns", "mark_ns", "sweep_ns")
_FAMILIES = (
    *(_family(number, "gauge") for number in _GAUGES),
    _Family(_RESIDENT, "gauge", "Resident memory of the process, by the kernel", ""),
    *(_family(number, "counter") for number in _COUNTERS),
    _Family(_PAUSE, "summary", "Pauses of the program by the collector; quantiles are since its start", ""),
)
_QUANTILES = (("0.5", "pause_ns_p50"), ("0.99", "pause_ns_p99"), ("1.0", "pause_ns_max"))


def render(readings: Sequence[Reading]) -> str:
    """One exposition; each sample is labelled with its process's number."""
    lines = []
    for family in _FAMILIES:
        lines += [f"# TYPE {family.name} {family.type}", *([f"# UNIT {family.name} {family.unit}"] if family.unit else []),
                  f"# HELP {family.name} {family.help}."]
        for reading in readings:
            lines += _pauses(reading) if family.name == _PAUSE else _sample(family, reading)
    return "\n".join([*lines, "# EOF", ""])


def _sample(family: _Family, reading: Reading) -> list[str]:
    """None of full collections where the process does not tell them from major ones."""
    if family.number == "full_count" and reading.image.full_collections is None:
        return []
    value = reading.rss_bytes if family.name == _RESIDENT else reading.number(family.number)
    name = f"{family.name}_total" if family.type == "counter" else family.name
    return [f'{name}{{pid="{reading.pid}"}} {_seconds(value) if family.unit == "seconds" else value}']


def _pauses(reading: Reading) -> list[str]:
    label = f'pid="{reading.pid}"'
    return [*(f'{_PAUSE}{{{label},quantile="{q}"}} {_seconds(reading.number(key))}' for q, key in _QUANTILES),
            f"{_PAUSE}_count{{{label}}} {reading.number('pause_count')}", f"{_PAUSE}_sum{{{label}}} {_seconds(reading.number('pause_ns'))}"]


def _seconds(ns: int) -> str:
    return f"{ns / 1e9:.9f}".rstrip("0").rstrip(".")


def put(readings: Sequence[Reading], output: Path | None) -> None:
    """To standard output, or in place of a file at once, as a node exporter's textfile collector wants it."""
    if output is None or str(output) == "-":
        files.to_standard_output(render(readings))
    else:
        files.put(output, render(readings))
