"""What the collectors of a command's Ruby processes did, from the lines that probe.rb writes."""

import contextlib
import math
import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from ashlar.processes import status

_WAIT_S = 2.0


class Moment(NamedTuple):
    what: str
    at_ns: float
    collections: int
    major: int
    full: int
    collector_ns: int


class Collected(NamedTuple):
    """Sums over processes. Full collections are among the major ones, which on Ashlar may pass over settled cells. `silent` is how many
    processes did not say what they had done at the end."""

    collections: int
    major: int
    full: int
    collector_s: float
    processes: int
    silent: int


def ask(scratch: Path, pids: Iterable[int]) -> None:
    """Have the Ruby processes among these write a line now. Only those get the signal that have a handler for it."""
    waiting = {}
    for pid in pids:
        lines = scratch / f"gc.{pid}"
        with contextlib.suppress(OSError, KeyError):
            size = lines.stat().st_size
            if int(status(pid)["SigCgt"], 16) >> (signal.SIGPWR - 1) & 1:
                os.kill(pid, signal.SIGPWR)
                waiting[lines] = size
    until = time.monotonic() + _WAIT_S
    while waiting and time.monotonic() < until:
        time.sleep(0.01)
        waiting = {path: size for path, size in waiting.items() if path.stat().st_size == size}


def read(scratch: Path, begin_ns: float = -math.inf, end_ns: float = math.inf) -> Collected | None:
    """Between two moments, or from the start to the end. None where no process has said anything."""
    done, processes, silent = [(0, 0, 0, 0)], 0, 0
    for path in scratch.glob("gc.*"):
        lives = [life for life in _lives(path) if life[0].at_ns <= end_ns and not (life[-1].what in ("ended", "left") and life[-1].at_ns < begin_ns)]
        processes += bool(lives)
        for life in lives:
            after, before = [m for m in life if m.at_ns <= end_ns][-1], _before(life, begin_ns)
            if after.what in ("began", "forked") or after.at_ns < begin_ns:
                silent += 1
            else:
                done.append([then - first for then, first in zip(after[2:], before[2:])])
    collections, major, full, collector_ns = map(sum, zip(*done))
    return Collected(collections, major, full, collector_ns / 1e9, processes, silent) if processes else None


def _lives(path: Path) -> list[list[Moment]]:
    """What a process said. One that becomes another program begins anew, and its numbers with it."""
    lives: list[list[Moment]] = []
    for line in path.read_text().splitlines():
        try:
            what, *numbers = line.split()
            moment = Moment(what, *map(int, numbers))
        except (TypeError, ValueError):
            continue  # a line that was cut off
        if what == "began" or not lives:
            lives.append([])
        lives[-1].append(moment)
    return lives


def _before(life: list[Moment], begin_ns: float) -> Moment:
    """What it had done before: at the beginning of the time asked for, at its fork, or nothing."""
    told = [m for m in life if m.what == "forked" or m.what != "began" and m.at_ns <= begin_ns]
    return told[-1] if told else Moment("began", 0, 0, 0, 0, 0)
