"""What being measured costs the measured program: one long run, watched in some short windows and not in others (docs/design/lab-launcher.md).

A steady program notes the time after each small, equal piece of work. Each round has one watched and two bare windows in shuffled order; the
second bare one shows how far equal windows differ. A block is many rounds and counts by the plain mean time of a piece: nothing is trimmed
there, since the costliest kind of sampling comes only about once a watched second.
"""

import contextlib
import functools
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ashlar.errors import BadInput
from ashlar.memory import launcher
from ashlar_lab.fit.trimmed import Estimate, ratio_estimate
from ashlar_lab.measure import cgroup, neighbours, run

WAYS = WATCHED, BARE, BARE_TWIN = "watched", "bare", "bare twin"
# The cost of being watched; and the same between windows that are alike: 1, but for noise.
WATCHED_OVER_BARE, TWIN_OVER_BARE = ((WATCHED,), (BARE, BARE_TWIN)), ((BARE_TWIN,), (BARE,))
# The kinds of what is spent: seconds of CPU time, seconds, and pieces of work.
CPU, WALL, PIECES = range(3)
WINDOW_S = 0.05
ROUNDS = 25
_WARM_UP_S = 1.0
_MARGIN_S = 0.002  # after a switch, for the launcher to wake and go to sleep again

# A heap of 100 MiB in which every piece of work drops and makes blocks of all sizes, from small ones to some that are mapped
# and unmapped, each time the same ones: what page-table walks of a sampler would disturb most.
_PROGRAM = """
import array, os, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit())
times, place = array.array('q', bytes(16 * 1000000)), 0
keep = [bytes(100 + i % 900) for i in range(180000)]
with open(sys.argv[1], 'w') as file:
    file.write(str(os.getpid()))
if len(sys.argv) > 3:
    os.fork() or os.execvp('sleep', ['sleep', '1000000'])
try:
    while place < len(times):
        for i in range(0, 180000, 45):
            keep[i] = bytes(100 + i % 900)
        for i in range(4):
            b'.' * 400000
        times[place] = time.monotonic_ns()
        times[place + 1] = time.process_time_ns()
        place += 2
finally:
    with open(sys.argv[2], 'wb') as file:
        times[:place].tofile(file)
"""


@dataclass(frozen=True)
class Window:
    """From when to when (seconds of the monotonic clock) the program ran in which way."""

    block: int
    way: str
    start_s: float
    end_s: float


@dataclass(frozen=True)
class Overhead:
    """Ratios of the time of a piece of work over blocks, watched / both bare ones and bare twin / bare; the share of one core
    that the launcher uses while it watches without a break; and the cores that other processes kept busy during the
    blocks (None where /proc does not tell)."""

    cpu: Estimate
    wall: Estimate
    cpu_twin: Estimate
    wall_twin: Estimate
    launcher_share: float
    others_cores: float | None
    blocks: int


def measure(blocks: int, sample_hz: float = 50.0, duty: float = launcher.DUTY_PERMILLE / 1000, tree: bool = False,
            launcher_s: float = 10.0, on_block: Callable[[int], None] = lambda done: None) -> Overhead:
    """Measure `blocks` blocks of about five seconds. `duty` is the share of one core that each kind of sampling may take.
    With `tree` the program has a child, so that PSS is read as often as it is of trees. `launcher_s` seconds at the end
    tell what the launcher itself uses. An interrupt ends it with the blocks there are, two at least."""
    group = cgroup.MemoryGroup()
    with tempfile.TemporaryDirectory(prefix="ashlar-lab-") as scratch:
        folder = Path(scratch)
        command = (os.path.realpath(sys.executable), "-S", "-c", _PROGRAM, str(folder / "pid"), str(folder / "pieces"), *(("tree",) if tree else ()))
        process = launcher.start(command, result=folder / "observed", environment=dict(os.environ), output=folder / "output", errors=folder / "errors",
                                 cgroup=group.entry, period_us=int(1e6 / sample_hz), duty_permille=round(1000 * duty), grace_s=10)
        try:
            pid = _started(process, folder / "pid")
            process.send_signal(signal.SIGUSR2)
            time.sleep(_WARM_UP_S)
            before, began = neighbours.look(), time.monotonic()
            windows = _switch(functools.partial(_watch, process, pid, group), blocks, random.Random(1), on_block)
            took, others = time.monotonic() - began, neighbours.between(before, neighbours.look())
            launcher_share = _launcher_share(process, launcher_s)
        finally:
            run.stop(process)
            group.close()
        seen = launcher.read_observed(folder / "observed")
        pieces = np.fromfile(folder / "pieces", np.int64)
    others_cores = None
    if others:  # the program and its launcher are still children that nobody has waited for, and so among the others
        (whole,) = _between(pieces, [(began, began + took)])
        own = seen.numbers["launcher_us"] / 1e6 + whole[0]
        others_cores = max(0.0, others.cpu_s + others.stolen_s - own) / took
    spent = spent_by_way(pieces, windows)
    return Overhead(*(ratio(spent, kind, ways) for ways in (WATCHED_OVER_BARE, TWIN_OVER_BARE) for kind in (CPU, WALL)),
                    launcher_share, others_cores, len(spent))


def spent_by_way(pieces: Sequence[int], windows: Sequence[Window]) -> np.ndarray:
    """By block, way and kind: what was spent. `pieces` alternates monotonic and CPU nanoseconds, noted at the end of each piece. A piece that lies
    across the edge of a window is divided as time is: leaving it out would leave out the long ones, those that cost most."""
    inside = [w for w in windows if len(pieces) and pieces[0] <= w.start_s * 1e9 and w.end_s * 1e9 <= pieces[-2]]
    found: dict[int, np.ndarray] = defaultdict(lambda: np.zeros((len(WAYS), 3)))
    for w, spent in zip(inside, _between(pieces, [(w.start_s, w.end_s) for w in inside])):
        found[w.block][WAYS.index(w.way)] += spent
    return np.array([ways for ways in found.values() if ways[:, PIECES].all()]).reshape(-1, len(WAYS), 3)


def _between(pieces: Sequence[int], spans_s: Sequence[tuple[float, float]]) -> np.ndarray:
    """What was spent in each span from one moment to another; a row has the kinds."""
    ends, cpu = np.array(pieces[::2]) / 1e9, np.array(pieces[1::2]) / 1e9
    spans = np.array(spans_s).reshape(-1, 2)
    return np.stack([np.diff(of, axis=1)[:, 0] for of in (np.interp(spans, ends, cpu), spans, np.interp(spans, ends, np.arange(len(ends))))], axis=1)


def ratio(spent: np.ndarray, kind: int, ways: tuple[Sequence[str], Sequence[str]]) -> Estimate:
    """The ratio within blocks of the mean times of a piece of work, in the first ways to the second ways."""
    sums = [spent[:, [WAYS.index(way) for way in some]].sum(axis=1) for some in ways]
    found = ratio_estimate(np.stack([of[:, kind] / of[:, PIECES] for of in sums], axis=1).tolist())
    if found is None:
        raise BadInput("the program got no work done in the windows; measure again when other processes leave a core free")
    return found


def _watch(process: subprocess.Popen, pid: int, group: cgroup.MemoryGroup, watched: bool) -> None:
    """Everything that a run of an experiment has switched on, switched on or off while the program runs."""
    if process.poll() is not None:
        raise BadInput("the program that is measured has ended too early; it needs 200 MB of memory")
    process.send_signal(signal.SIGCONT if watched else signal.SIGUSR2)
    if group.path:
        with contextlib.suppress(OSError):  # version 2 may forbid processes in the group above; it stays inside, then
            ((group.path if watched else group.path.parent) / "cgroup.procs").write_text(str(pid))


def _switch(watch: Callable[[bool], None], blocks: int, order: random.Random, on_block: Callable[[int], None]) -> list[Window]:
    windows: list[Window] = []
    try:
        for block in range(blocks):
            for way in _order_of_block(order):
                watch(way == WATCHED)
                start = time.monotonic() + _MARGIN_S
                time.sleep(_MARGIN_S + WINDOW_S)
                windows.append(Window(block, way, start, time.monotonic()))
            on_block(block + 1)
    except KeyboardInterrupt:
        windows = windows[:len(windows) - len(windows) % (ROUNDS * len(WAYS))]
        if len({w.block for w in windows}) < 2:
            raise
    return windows


def _order_of_block(order: random.Random) -> list[str]:
    return [way for _ in range(ROUNDS) for way in order.sample(WAYS, len(WAYS))]


def _launcher_share(process, seconds: float) -> float:
    process.send_signal(signal.SIGCONT)
    clock = ~process.pid << 3 | 2  # clock_getcpuclockid(3) of another process
    began, cpu = time.monotonic(), time.clock_gettime(clock)
    time.sleep(seconds)
    return (time.clock_gettime(clock) - cpu) / (time.monotonic() - began)


def _started(process, pid_file: Path) -> int:
    end = time.monotonic() + 30
    while time.monotonic() < end and process.poll() is None:
        if pid_file.exists() and (text := pid_file.read_text()):
            return int(text)
        time.sleep(0.02)
    raise BadInput("the program to be measured did not start within 30 s; try again when the machine has room")
