"""What `ashlar mem` does, and its tables."""

from __future__ import annotations

import dataclasses
import json

from ashlar.memory.measure import COLUMNS, measure
from ashlar.said import one_line, say

_HEAD = ("Size", "RSS", "PSS", "Private", "Swap")


def run(asked) -> int:
    found = measure(asked.command)
    say(as_json(found) if asked.json else text(found), error=not asked.json)
    return found.status


def text(memory) -> str:
    """Plain text, in KiB, one line per process and a total where there are several."""
    lines = [f"{'memory in KiB':28}" + "".join(f"{h:>12}" for h in _HEAD)]
    if memory.at_exit:
        lines += _section("at exit", memory.at_exit)
    else:
        lines.append("at exit: not read; the command was ended by a signal it could not outlive" if memory.traced
                     else "at exit: not read; this system forbids tracing (ptrace)")
    if memory.at_peak:
        lines += _section(f"at peak ({memory.peak_at_s:.2f} s of {memory.wall_s:.2f} s)", memory.at_peak)
    marks = [p.hwm_kib for p in memory.at_exit]
    if len(marks) == 1:
        lines.append(f"the kernel's high-water mark of RSS: {marks[0]:,} KiB")
    if memory.ended_before:
        largest = max(memory.ended_before, key=lambda p: p.hwm_kib)
        lines.append(f"{len(memory.ended_before)} other process{'es' if len(memory.ended_before) != 1 else ''} ended before; "
                     f"the largest was {one_line(largest.name)} with {largest.hwm_kib:,} KiB at its peak")
    return "\n".join(lines)


def _section(title: str, processes) -> list[str]:
    rows = [(f"  {one_line(p.name)} ({p.pid})", p) for p in processes]
    lines = [title] + [f"{name:28}" + "".join(f"{getattr(p, c):>12,}" for c in COLUMNS) for name, p in rows]
    if len(rows) > 1:
        lines.append(f"{'  total':28}" + "".join(f"{sum(getattr(p, c) for p in processes):>12,}" for c in COLUMNS))
    return lines


def as_json(memory) -> str:
    return json.dumps(dataclasses.asdict(memory), indent=1)
