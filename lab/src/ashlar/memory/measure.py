"""Memory of a command's process tree at its exit and at its peak, without the command's help.

The launcher traces the tree and stops each process at the moment it exits, when its memory is still mapped; the
peak is looked for while it runs.
"""

from __future__ import annotations

import os
import signal
import tempfile
from dataclasses import dataclass
from pathlib import Path

from ashlar.errors import BadInput
from ashlar.memory import launcher

COLUMNS = ("size_kib", "rss_kib", "pss_kib", "private_kib", "swap_kib")


@dataclass(frozen=True)
class ProcessMemory:
    """One process at one moment, in KiB. `hwm_kib` is the kernel's high-water mark of its RSS until then."""

    pid: int
    name: str
    size_kib: int
    rss_kib: int
    pss_kib: int
    private_kib: int
    swap_kib: int
    hwm_kib: int


@dataclass(frozen=True)
class TreeMemory:
    """What `ashlar mem` knows: the tree when the command ended, the tree at its largest, and who ended before."""

    at_exit: tuple[ProcessMemory, ...]
    at_peak: tuple[ProcessMemory, ...]
    peak_at_s: float | None
    ended_before: tuple[ProcessMemory, ...]
    wall_s: float
    status: int
    traced: bool


def measure(command: list[str], sample_hz: float = 500.0) -> TreeMemory:
    """Run `command` in the foreground and read its memory from smaps. Nothing is timed, so the peak may be looked for often."""
    with tempfile.TemporaryDirectory(prefix="ashlar-lab-") as scratch:
        result = Path(scratch) / "observed"
        process = launcher.start(tuple(command), result=result, environment=dict(os.environ), period_us=int(1e6 / sample_hz),
                                 duty_permille=100, trace=True, counters=False, foreground=True)
        previous = signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal's Ctrl-C is for the command; the launcher passes it on
        try:
            process.wait()
        finally:
            signal.signal(signal.SIGINT, previous)
        if process.returncode or not result.exists():
            raise BadInput(f"the launcher could not start {command[0]!r}: exit {process.returncode}")
        seen = launcher.read_observed(result)
    if seen.exec_failed:
        raise BadInput(f"cannot run {command[0]!r}: {seen.exec_failed}; check the path, or PATH")
    groups: dict[tuple[str, int], list[ProcessMemory]] = {}
    for m in seen.memory:
        groups.setdefault((m["moment"], m["at_us"]), []).append(ProcessMemory(**{k: v for k, v in m.items() if k not in ("moment", "at_us")}))
    largest = max((g for g in groups if g[0] in ("peak", "at_exit")), key=lambda g: total(groups[g], "rss_kib"), default=None)
    at_exit = next((tuple(v) for k, v in groups.items() if k[0] == "at_exit"), ())
    status = int(seen.numbers.get("exit", 128 + seen.numbers.get("signal", 0)))
    return TreeMemory(
        at_exit=at_exit,
        at_peak=tuple(groups[largest]) if largest else (),
        peak_at_s=largest[1] / 1e6 if largest else None,
        ended_before=tuple(p for (moment, _), ps in groups.items() if moment == "process_exit" for p in ps),
        wall_s=seen.numbers.get("wall_ns", 0) / 1e9,
        status=status,
        traced=seen.traced,
    )


def total(processes, column: str) -> int:
    """The sum over processes; sums of RSS count shared pages once per process, sums of PSS do not."""
    return sum(getattr(p, column) for p in processes)
