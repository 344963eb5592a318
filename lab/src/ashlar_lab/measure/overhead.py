"""What being measured costs the measured program: the same command under the lab and bare, in shuffled pairs."""

from __future__ import annotations

import os
import random
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from ashlar_lab.fit.trimmed import Estimate, ratio_estimate
from ashlar_lab.measure import cgroup, launcher, neighbours

# Allocates, touches and drops memory all the time: what page-table walks of a sampler would disturb most.
PROGRAM = (sys.executable, "-c", "\n".join((
    "keep = [bytes(100 + i % 900) for i in range(100000)]",
    "for i in range(1500000): keep[i * 7919 % 100000] = bytes(100 + i % 900)",
)))


@dataclass(frozen=True)
class Overhead:
    """Ratios measured / bare over pairs, the share of one core that the launcher itself used beside the program, and the
    cores that other processes kept busy during the whole measurement (None where /proc does not tell)."""

    cpu: Estimate
    wall: Estimate
    launcher_share: float
    others_cores: float | None
    pairs: int


def measure(pairs: int, command: tuple[str, ...] = PROGRAM, seed: int = 1, on_pair=lambda done: None) -> Overhead:
    """Run `pairs` pairs; which of a pair goes first is drawn. An interrupt ends it with the pairs there are, two at least."""
    order = random.Random(seed)
    cpu, wall, share = [], [], []
    before, started = neighbours.look(), time.perf_counter()
    try:
        for done in range(pairs):
            ways = [_watched, _bare]
            order.shuffle(ways)
            found = {way: way(command) for way in ways}
            (cpu_watched, wall_watched, own), (cpu_bare, wall_bare, _) = found[_watched], found[_bare]
            cpu.append((cpu_watched, cpu_bare))
            wall.append((wall_watched, wall_bare))
            share.append(own / wall_watched)
            on_pair(done + 1)
    except KeyboardInterrupt:
        if len(share) < 2:
            raise
    others = neighbours.between(before, neighbours.look())
    cores = (others.cpu_s + others.stolen_s) / (time.perf_counter() - started) if others else None
    return Overhead(ratio_estimate(cpu), ratio_estimate(wall), sorted(share)[len(share) // 2], cores, len(share))


def _bare(command: tuple[str, ...]) -> tuple[float, float, float]:
    """CPU and wall seconds of the command started directly."""
    nothing = os.open(os.devnull, os.O_RDWR)
    start = time.perf_counter()
    pid = os.posix_spawnp(command[0], command, os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, nothing, fd) for fd in (0, 1, 2)])
    _, _, used = os.wait4(pid, 0)
    wall = time.perf_counter() - start
    os.close(nothing)
    return used.ru_utime + used.ru_stime, wall, 0.0


def _watched(command: tuple[str, ...]) -> tuple[float, float, float]:
    """The same with everything a run of an experiment has switched on."""
    group = cgroup.MemoryGroup()
    with tempfile.TemporaryDirectory(prefix="ashlar-lab-") as scratch:
        folder = Path(scratch)
        process = launcher.start(command, result=folder / "observed", environment=dict(os.environ), output=folder / "output",
                                 errors=folder / "errors", cgroup=group.entry, period_us=20000)
        process.wait()
        group.close()
        n = launcher.read_observed(folder / "observed").numbers
    return (n["user_us"] + n["sys_us"]) / 1e6, n["wall_ns"] / 1e9, n["launcher_us"] / 1e6
