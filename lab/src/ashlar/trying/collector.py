"""What the collectors of a command's Ruby processes did, from the lines that probe.rb writes."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_WAIT_S = 2.0


@dataclass(frozen=True)
class Moment:
    what: str
    at_ns: int
    collections: int
    full: int
    collector_ns: int


@dataclass(frozen=True)
class Collected:
    """Sums over processes. `silent` is how many of them did not say what they had done at the end."""

    collections: int
    full: int
    collector_s: float
    processes: int
    silent: int


def ask(scratch: Path, pids: Iterable[int]) -> None:
    """Have the Ruby processes among these write a line now. Only those get the signal that have a handler for it."""
    waiting = {}
    for pid in pids:
        lines = _file(scratch, pid)
        if lines.exists() and _handles(pid, signal.SIGPWR):
            waiting[lines] = lines.stat().st_size
            try:
                os.kill(pid, signal.SIGPWR)
            except OSError:
                del waiting[lines]
    until = time.monotonic() + _WAIT_S
    while waiting and time.monotonic() < until:
        time.sleep(0.01)
        waiting = {path: size for path, size in waiting.items() if path.stat().st_size == size}


def _handles(pid: int, number: int) -> bool:
    try:
        caught = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("SigCgt:"))
    except (OSError, StopIteration):
        return False
    return bool(int(caught.split()[1], 16) >> (number - 1) & 1)


def read(scratch: Path, begin_ns: int | None = None, end_ns: int | None = None) -> Collected | None:
    """Between two moments, or from the start to the end. None where no process has said anything."""
    collections = full = collector_ns = processes = silent = 0
    for path in scratch.glob("gc.*"):
        moments = _moments(path)
        if end_ns is not None:
            moments = [m for m in moments if m.at_ns <= end_ns]
        if not moments:
            continue
        before, after = _first(moments, begin_ns), moments[-1]
        if begin_ns is not None and after.at_ns < begin_ns and after.what == "ended":
            continue
        processes += 1
        if after.what in ("began", "forked") or begin_ns is not None and after.at_ns < begin_ns:
            silent += 1
            continue
        collections += after.collections - before.collections
        full += after.full - before.full
        collector_ns += after.collector_ns - before.collector_ns
    return Collected(collections, full, collector_ns / 1e9, processes, silent) if processes else None


def _first(moments: list[Moment], begin_ns: int | None) -> Moment:
    """What the process had done before: at the beginning of the time asked for, at its fork, or nothing. A line that says `began` is of a
    new program, in the process of an older one or in a new one."""
    found = Moment("began", 0, 0, 0, 0)
    for moment in moments:
        if moment.what == "began":
            found = Moment("began", moment.at_ns, 0, 0, 0)
        elif moment.what == "forked" or begin_ns is not None and moment.at_ns <= begin_ns:
            found = moment
    return found


def _moments(path: Path) -> list[Moment]:
    found = []
    for line in path.read_text().splitlines():
        try:
            what, *numbers = line.split()
            found.append(Moment(what, *map(int, numbers)))
        except (TypeError, ValueError):
            continue  # a line that was cut off
    return found


def _file(scratch: Path, pid: int) -> Path:
    return scratch / f"gc.{pid}"
