"""What else used the CPUs during a run: the difference of two looks at /proc, the lab's own tree left out."""

import contextlib
import os
import resource
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from ashlar.processes import TICKS_PER_S, Stat, stat_of

_NAMED = 3
_WORTH_NAMING_S = 0.05


@dataclass(frozen=True)
class Look:
    """One moment. `busy_s` and `stolen_s` are summed over all CPUs since boot, `own_s` is this process and the children
    it has waited for. `processes` is keyed by (pid, start time), which no two processes share."""

    busy_s: float
    stolen_s: float
    own_s: float
    processes: dict[tuple[int, int], Stat]


@dataclass(frozen=True)
class Neighbours:
    """Between two looks: CPU seconds of everything else, seconds the hypervisor gave away, and who used most."""

    cpu_s: float
    stolen_s: float
    biggest: dict[str, float]

    def part(self, share: float) -> "Neighbours":
        """What falls to a share of the time."""
        return Neighbours(share * self.cpu_s, share * self.stolen_s, {name: round(share * s, 2) for name, s in self.biggest.items()})


def look(root: Path = Path("/proc")) -> Look | None:
    """The moment as it is; None where /proc does not tell."""
    try:
        first = (root / "stat").read_text().split("\n", 1)[0].split()
        ticks = [int(n) for n in first[1:]] + [0] * 8
    except (OSError, ValueError, IndexError):
        return None
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    processes = {}
    for entry in os.scandir(root):
        with contextlib.suppress(OSError):  # it has ended since the folder was listed
            if entry.name.isdigit():
                told = stat_of((root / entry.name / "stat").read_text(errors="replace"))
                processes[int(entry.name), told.started] = told
    busy, stolen = sum(ticks[:3]), ticks[7]  # user, nice and system time are busy
    return Look(busy / TICKS_PER_S, stolen / TICKS_PER_S, sum(u.ru_utime + u.ru_stime for u in used), processes)


def between(before: Look | None, after: Look | None, lab: int | None = None) -> Neighbours | None:
    """What others used between two looks of the process `lab` (this one unless given). None when a look is missing."""
    if before is None or after is None:
        return None
    others = after.busy_s - before.busy_s - (after.own_s - before.own_s)
    return Neighbours(max(0.0, others), max(0.0, after.stolen_s - before.stolen_s), _biggest(before, after, os.getpid() if lab is None else lab))


def _biggest(before: Look, after: Look, lab: int) -> dict[str, float]:
    """CPU seconds by name. What a process did that came and went shows in the time a surviving ancestor has of its
    children; of what was there before, only the part since counts."""
    used: dict[str, float] = defaultdict(float)
    inherited: dict[int, float] = defaultdict(float)
    alive = {pid for pid, _ in before.processes.keys() & after.processes.keys()}
    parents = {pid: process.parent for (pid, _), process in before.processes.items()}
    for (pid, _), process in before.processes.items():
        if pid in alive:
            continue
        heir = process.parent
        while heir in parents and heir not in alive:
            heir = parents[heir]
        inherited[heir] += process.cpu_s + process.children_s
    for (pid, started), process in after.processes.items():
        if pid == lab:
            continue
        was = before.processes.get((pid, started))
        children = max(0.0, process.children_s - (was.children_s if was else 0.0) - inherited[pid])
        # The first process takes in every orphan: naming it would tell nobody whom to stop.
        used[process.name] += process.cpu_s - (was.cpu_s if was else 0.0) + (children if pid != 1 else 0.0)
    ordered = sorted(used.items(), key=lambda item: -item[1])
    return {name: round(seconds, 2) for name, seconds in ordered[:_NAMED] if seconds >= _WORTH_NAMING_S}
