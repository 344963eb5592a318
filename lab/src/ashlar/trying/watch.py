"""The processes of a command while they run: memory, CPU time, and which programs they are. From /proc alone."""

import os
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from ashlar import processes
from ashlar.processes import TICKS_PER_S, Stat

_OF_PROCESS = 2  # the clock of a process's CPU time, in nanoseconds; its number holds that of the process
# Reading the memory of a process takes the kernel time, and the process waits for that when it maps memory. Of all time at most this share is spent on it,
# and more of the first seconds, in which short programs have to be seen.
_SHARE, _LEAST_S = 0.04, 0.05
_FIRST_S, _FIRST_SHARE, _FIRST_LEAST_S = 3.0, 0.1, 0.01


class Sample(NamedTuple):
    """Sums over the processes of the command at one moment, in seconds since its start. `workers` have a parent that runs the same program."""

    at_s: float
    pss_bytes: int
    workers_dirty_bytes: int
    processes: int
    workers: int
    cpu_s: float


@dataclass
class Seen:
    """What a run looked like. `unreadable` is how many readings of a process took its RSS, for want of the right to read more."""

    samples: list[Sample] = field(default_factory=list)
    programs: dict[str, int] = field(default_factory=dict)  # each executable, and a process that ran it
    unreadable: int = 0


class Watcher:
    """Reads the tree again and again in a thread of its own, as long as the context lasts. `start` is its time 0."""

    def __init__(self, start: float):
        self.seen, self._start, self._stop = Seen(), start, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Seen:
        self._thread.start()
        return self.seen

    def __exit__(self, *_) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        pause_s = _FIRST_LEAST_S
        while not self._stop.wait(pause_s):
            began = time.monotonic()
            self._read(began)
            share, least_s = (_FIRST_SHARE, _FIRST_LEAST_S) if began - self._start < _FIRST_S else (_SHARE, _LEAST_S)
            pause_s = max(least_s, (time.monotonic() - began) / share)

    def _read(self, now: float) -> None:
        pss = dirty = count = workers = 0
        cpu = 0.0
        programs = {}
        for pid, parent in processes.descendants(os.getpid()):
            stat, program = processes.stat(pid), processes.told("", os.readlink, f"/proc/{pid}/exe")
            if stat is None or not program:
                continue
            programs[pid] = program = program.removesuffix(" (deleted)")
            memory = self._memory(pid)
            count += 1
            cpu += _cpu_s(pid, stat)
            pss += memory[0]
            if programs.get(parent) == program:
                workers += 1
                dirty += memory[1]
        if count:
            for pid, program in programs.items():
                self.seen.programs.setdefault(program, pid)
            self.seen.samples.append(Sample(now - self._start, pss, dirty, count, workers, cpu))

    def _memory(self, pid: int) -> tuple[int, int]:
        """PSS and private dirty memory, in bytes."""
        try:
            told = processes.rollup(pid)
            return told["Pss"], told["Private_Dirty"]
        except (ProcessLookupError, KeyError, IndexError, FileNotFoundError):
            return 0, 0
        except OSError:
            self.seen.unreadable += 1
            return processes.kib(processes.told({}, processes.status, pid), "VmRSS"), 0


def _cpu_s(pid: int, stat: Stat) -> float:
    """With that of its ended children, which the kernel tells in ticks alone."""
    return processes.told(stat.cpu_s, time.clock_gettime, ~pid << 3 | _OF_PROCESS) + stat.children_s


def cpu_s() -> float:
    """CPU time so far of all processes that run, and of their ended children."""
    return sum(_cpu_s(pid, stat) for pid, _ in processes.descendants(os.getpid()) if (stat := processes.stat(pid)))


def busy_s() -> float:
    """CPU time that all processors of this machine have spent on anything since it started."""
    user, nice, system, _, _, interrupts, soft, stolen = map(int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9])
    return (user + nice + system + interrupts + soft + stolen) / TICKS_PER_S
