"""The live numbers as OpenMetrics text, version 1.0, that the older Prometheus text format can be read from as well.

So only gauges, counters and summaries are used, and no timestamps: a node exporter's textfile collector reads the older format.
`ruby/lib/ashlar/metrics.rb` serves the same names from inside a process.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ashlar import files
from ashlar.heap.top import Reading

@dataclass(frozen=True)
class _Family:
    """A name, its type, the unit that it ends in, what it means, and which of the image's numbers it is; seconds are ns there."""

    name: str
    type: str
    unit: str
    help: str
    number: str


_RESIDENT, _PAUSE = "ashlar_resident_bytes", "ashlar_pause_seconds"
_NS_PER_S = 10 ** 9
_FAMILIES = (
    _Family("ashlar_live_bytes", "gauge", "bytes", "Live memory: cells, payloads, and memory elsewhere that objects own", "live_bytes"),
    _Family("ashlar_cell_bytes", "gauge", "bytes", "Live cells", "cell_bytes"),
    _Family("ashlar_payload_bytes", "gauge", "bytes", "Payloads, which are what objects own beside their cells", "payload_bytes"),
    _Family("ashlar_external_bytes", "gauge", "bytes", "Memory elsewhere that objects own", "external_bytes"),
    _Family("ashlar_cell_block_bytes", "gauge", "bytes", "Blocks of cells", "cell_block_bytes"),
    _Family("ashlar_payload_block_bytes", "gauge", "bytes", "Blocks of payloads", "payload_block_bytes"),
    _Family("ashlar_hole_bytes", "gauge", "bytes", "Free space inside blocks of cells", "hole_bytes"),
    _Family("ashlar_spare_bytes", "gauge", "bytes", "Empty blocks that have memory", "spare_bytes"),
    _Family("ashlar_live_cells", "gauge", "", "Live cells, by number", "live_cells"),
    _Family("ashlar_old_cells", "gauge", "", "Cells of the old generation, by number", "old_cells"),
    _Family("ashlar_memory_limit_bytes", "gauge", "bytes", "The memory limit, 0 when there is none", "memory_limit_bytes"),
    _Family("ashlar_budget_bytes", "gauge", "bytes", "What may be allocated between two collections", "budget_bytes"),
    _Family("ashlar_fresh_bytes", "gauge", "bytes", "What was allocated since the latest collection", "fresh_bytes"),
    _Family(_RESIDENT, "gauge", "bytes", "Resident memory of the process, by the kernel", ""),
    _Family("ashlar_allocated_bytes", "counter", "bytes", "Memory allocated", "allocated_bytes"),
    _Family("ashlar_allocated_objects", "counter", "", "Objects allocated", "allocated_objects"),
    _Family("ashlar_minor_collections", "counter", "", "Minor collections", "minor_count"),
    _Family("ashlar_major_collections", "counter", "", "Collections that are not minor, full ones among them", "major_count"),
    _Family("ashlar_full_collections", "counter", "", "Full collections", "full_count"),
    _Family("ashlar_collector_seconds", "counter", "seconds", "Time in the collector", "collector_ns"),
    _Family("ashlar_mark_seconds", "counter", "seconds", "Time in the collector spent marking", "mark_ns"),
    _Family("ashlar_sweep_seconds", "counter", "seconds", "Time in the collector spent sweeping", "sweep_ns"),
    _Family(_PAUSE, "summary", "seconds", "Pauses of the program by the collector; quantiles are since its start", ""),
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
    return f"{ns / _NS_PER_S:.9f}".rstrip("0").rstrip(".")


def put(readings: Sequence[Reading], output: Path | None) -> None:
    """To standard output, or in place of a file at once, as a node exporter's textfile collector wants it."""
    if output is None or str(output) == "-":
        files.to_standard_output(render(readings))
    else:
        files.put(output, render(readings))
