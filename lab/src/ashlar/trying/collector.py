"""What the collectors of a command's Ruby processes did, from the lines that probe.rb writes."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ashlar.processes import status

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
        return bool(int(status(pid)["SigCgt"], 16) >> (number - 1) & 1)
    except (OSError, KeyError):
        return False


def read(scratch: Path, begin_ns: int | None = None, end_ns: int | None = None) -> Collected | None:
    """Between two moments, or from the start to the end. None where no process has said anything."""
    whole, processes, silent = Moment("", 0, 0, 0, 0), 0, 0
    for path in scratch.glob("gc.*"):
        lives = [life for life in _lives(_moments(path)) if _in_time(life, begin_ns, end_ns)]
        processes += bool(lives)
        for life in lives:
            until = [m for m in life if end_ns is None or m.at_ns <= end_ns]
            after, before = until[-1], _before(life, begin_ns)
            if after.what in ("began", "forked") or begin_ns is not None and after.at_ns < begin_ns:
                silent += 1
            else:
                whole = Moment("", 0, *(getattr(whole, n) + getattr(after, n) - getattr(before, n) for n in ("collections", "full", "collector_ns")))
    return Collected(whole.collections, whole.full, whole.collector_ns / 1e9, processes, silent) if processes else None


def _lives(moments: list[Moment]) -> list[list[Moment]]:
    """A process that becomes another program begins anew, and its numbers with it."""
    lives: list[list[Moment]] = []
    for moment in moments:
        if moment.what == "began" or not lives:
            lives.append([])
        lives[-1].append(moment)
    return lives


def _in_time(life: list[Moment], begin_ns: int | None, end_ns: int | None) -> bool:
    """Whether some of it lies between the two moments."""
    over = life[-1].what in ("ended", "left") and begin_ns is not None and life[-1].at_ns < begin_ns
    return not over and (end_ns is None or life[0].at_ns <= end_ns)


def _before(life: list[Moment], begin_ns: int | None) -> Moment:
    """What it had done before: at the beginning of the time asked for, at its fork, or nothing."""
    found = Moment("began", 0, 0, 0, 0)
    for moment in life:
        if moment.what == "forked" or begin_ns is not None and moment.at_ns <= begin_ns and moment.what != "began":
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
