"""The live numbers as OpenMetrics text, version 1.0, that the older Prometheus text format can be read from as well.

So only gauges, counters and summaries are used, and no timestamps: a node exporter's textfile collector reads the older format.
`ruby/lib/ashlar/metrics.rb` serves the same names from inside a process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from ashlar_lab.heap.top import Reading
from ashlar_lab.report import write

# Name without unit, unit, type, what it means, and the value of a reading.
_FAMILIES: tuple[tuple[str, str, str, str, Callable[[Reading], float]], ...] = tuple(
    (name, unit, kind, told, (lambda key, scale: lambda r: r.number(key) / scale if scale != 1 else r.number(key))(key, scale))
    for name, unit, kind, told, key, scale in (
        ("ashlar_live", "bytes", "gauge", "Live memory: cells, payloads, and memory elsewhere that objects own", "live_bytes", 1),
        ("ashlar_cell", "bytes", "gauge", "Live cells", "cell_bytes", 1),
        ("ashlar_payload", "bytes", "gauge", "Payloads, which are what objects own beside their cells", "payload_bytes", 1),
        ("ashlar_external", "bytes", "gauge", "Memory elsewhere that objects own", "external_bytes", 1),
        ("ashlar_cell_block", "bytes", "gauge", "Blocks of cells", "cell_block_bytes", 1),
        ("ashlar_payload_block", "bytes", "gauge", "Blocks of payloads", "payload_block_bytes", 1),
        ("ashlar_hole", "bytes", "gauge", "Free space inside blocks of cells", "hole_bytes", 1),
        ("ashlar_spare", "bytes", "gauge", "Empty blocks that have memory", "spare_bytes", 1),
        ("ashlar_live_cells", "", "gauge", "Live cells, by number", "live_cells", 1),
        ("ashlar_old_cells", "", "gauge", "Cells of the old generation, by number", "old_cells", 1),
        ("ashlar_memory_limit", "bytes", "gauge", "The memory limit, 0 when there is none", "memory_limit_bytes", 1),
        ("ashlar_budget", "bytes", "gauge", "What may be allocated between two collections", "budget_bytes", 1),
        ("ashlar_fresh", "bytes", "gauge", "What was allocated since the latest collection", "fresh_bytes", 1),
        ("ashlar_resident", "bytes", "gauge", "Resident memory of the process, by the kernel", "", 1),
        ("ashlar_allocated", "bytes", "counter", "Memory allocated", "allocated_bytes", 1),
        ("ashlar_allocated_objects", "", "counter", "Objects allocated", "allocated_objects", 1),
        ("ashlar_minor_collections", "", "counter", "Minor collections", "minor_count", 1),
        ("ashlar_full_collections", "", "counter", "Full collections", "full_count", 1),
        ("ashlar_collector", "seconds", "counter", "Time in the collector", "collector_ns", 1e9),
        ("ashlar_mark", "seconds", "counter", "Time in the collector spent marking", "mark_ns", 1e9),
        ("ashlar_sweep", "seconds", "counter", "Time in the collector spent sweeping", "sweep_ns", 1e9),
        ("ashlar_pause", "seconds", "summary", "Pauses of the program by the collector; quantiles are since its start", "", 1),
    ))
_QUANTILES = (("0.5", "pause_ns_p50"), ("0.99", "pause_ns_p99"), ("1.0", "pause_ns_max"))


def render(readings: Sequence[Reading]) -> str:
    """One exposition; each sample is labelled with its process's number."""
    lines = []
    for name, unit, kind, told, value in _FAMILIES:
        full = f"{name}_{unit}" if unit else name
        lines += [f"# TYPE {full} {kind}"] + ([f"# UNIT {full} {unit}"] if unit else []) + [f"# HELP {full} {told}."]
        for r in readings:
            lines += _samples(full, kind, value, r)
    return "\n".join([*lines, "# EOF", ""])


def _samples(full: str, kind: str, value, r: Reading) -> list[str]:
    label = f'pid="{r.pid}"'
    if kind == "summary":
        return [f'{full}{{{label},quantile="{q}"}} {_number(r.number(key) / 1e9)}' for q, key in _QUANTILES] + [
            f"{full}_count{{{label}}} {r.number('pause_count')}", f"{full}_sum{{{label}}} {_number(r.number('pause_ns') / 1e9)}"]
    found = r.rss_bytes if full == "ashlar_resident_bytes" else value(r)
    return [f"{full}{'_total' if kind == 'counter' else ''}{{{label}}} {_number(found)}"]


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.9f}".rstrip("0").rstrip(".")


def put(readings: Sequence[Reading], output: Path | None) -> None:
    """To standard output, or in place of a file at once, as a node exporter's textfile collector wants it."""
    if output is None or str(output) == "-":
        write.to_standard_output(render(readings))
    else:
        write.put(output, render(readings))
