"""Live numbers of processes: two readings make rates, and a reading makes a screen."""

import contextlib
import os
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ashlar import amounts, processes
from ashlar.errors import BadInput
from ashlar.heap import image
from ashlar.heap.image import Image
from ashlar.said import one_line, say, visible
from ashlar.tables import Table, table_text


class Reading(NamedTuple):
    """A process's numbers at one moment. `cpu_s` is its CPU time so far; RSS and swap are the kernel's, and so is `memory`, from smaps_rollup,
    which is empty where that may not be read."""

    image: Image
    pid: int
    at_ns: int
    cpu_s: float
    rss_bytes: int
    swap_bytes: int
    memory: dict[str, int]

    def number(self, name: str) -> int:
        return self.image.numbers.get(name, 0)


class Rates(NamedTuple):
    """Between two readings, or since the process began where there is one. `collector_share` is of the process's CPU time."""

    seconds: float
    allocated_bytes_per_s: float
    objects_per_s: float
    collections_per_s: float
    full_per_s: float
    collector_share: float


def read(pid: int) -> Reading:
    """Raises BadInput where the process has no image, is gone or may not be read."""
    found = image.read_process(pid, tables=False)
    with image.reading(pid):
        stat, status = processes.stat(pid), processes.status(pid)
        if not stat:
            raise ProcessLookupError
    return Reading(found, pid, time.time_ns(), stat.cpu_s, processes.kib(status, "VmRSS"), processes.kib(status, "VmSwap"),
                   processes.told({}, processes.rollup, pid))


def read_again(pid: int, earlier: Reading | None) -> Reading:
    """The next reading. While nothing new is written it keeps the CPU time of the first reading of the image, which is the nearest to when the numbers
    were taken: the collector's time between two images is compared with the CPU time between them."""
    now = read(pid)
    return now._replace(cpu_s=earlier.cpu_s) if earlier and earlier.image.taken_ns == now.image.taken_ns else now


def read_all(pids: Sequence[int] | None) -> list[Reading]:
    """Of these processes, or of all that this user may read; one that ends meanwhile is left out of all, and is an error among these."""
    if pids is not None:
        return [read(pid) for pid in pids]
    found = []
    for pid in image.with_image():
        with contextlib.suppress(BadInput):
            found.append(read(pid))
    return found


def rates(now: Reading, before: Reading | None) -> Rates:
    def grown(name: str) -> float:
        return max(now.number(name) - (before.number(name) if before else 0), 0)

    # The numbers are of the moment when they were taken, the CPU time is of the first reading after it.
    since_ns = before.image.taken_ns if before else now.image.started_ns
    seconds = (now.image.taken_ns - since_ns) / 1e9
    if before and seconds <= 0:  # nothing new was written: nothing happened worth writing
        seconds = (now.at_ns - before.at_ns) / 1e9
    cpu_s = now.cpu_s - (before.cpu_s if before else 0.0)
    per_s = 1 / seconds if seconds > 0 else 0.0
    collector_s = grown("collector_ns") / 1e9
    return Rates(seconds, grown("allocated_bytes") * per_s, grown("allocated_objects") * per_s, (grown("minor_count") + grown("major_count")) * per_s, grown("full_count") * per_s,
                 min(collector_s / cpu_s, 1.0) if cpu_s > 0 else 0.0)


# ── Screens ────────────────────────────────────────────────────────────────

def rows(now: Reading, before: Reading | None) -> list[tuple[str, str]]:
    """Names and values, the most important first."""
    r, n = rates(now, before), now.number
    live, limit = n("live_bytes"), n("memory_limit_bytes")
    blocks = n("cell_block_bytes") + n("payload_block_bytes")
    return [
        ("live", f"{amounts.memory(live)} in {n('live_cells'):,} cells" + (f", {amounts.percent(live, limit)} of the limit" if limit else "")),
        ("cells", amounts.memory(n("cell_bytes"))),
        ("payloads", amounts.memory(n("payload_bytes"))),
        ("elsewhere", amounts.memory(n("external_bytes"))),
        ("old cells", f"{n('old_cells'):,} ({amounts.percent(n('old_cells'), n('live_cells'))})"),
        ("blocks", f"{amounts.memory(blocks)}: {amounts.memory(n('cell_block_bytes'))} of cells, {amounts.memory(n('payload_block_bytes'))} of payloads"),
        ("holes", f"{amounts.memory(n('hole_bytes'))} ({amounts.percent(n('hole_bytes'), n('cell_block_bytes'))} of the blocks of cells)"),
        ("spare", amounts.memory(n("spare_bytes"))),
        ("RSS", amounts.memory(now.rss_bytes) + (f", {amounts.memory(now.swap_bytes)} swapped out" if now.swap_bytes else "")),
        ("shared", _shared(now)),
        ("limit", amounts.memory(limit) if limit else "none"),
        ("allocation", f"{amounts.memory(r.allocated_bytes_per_s)}/s, {amounts.count(r.objects_per_s)} objects/s"),
        ("collections", f"{r.collections_per_s:.2f}/s, " + _kinds(now, r)),
        ("collector", f"{100 * r.collector_share:.1f} % of the CPU time; {amounts.duration(n('collector_ns'))} so far"),
        ("pauses", f"median {amounts.duration(n('pause_ns_p50'))}, 99 % within {amounts.duration(n('pause_ns_p99'))}, "
                   f"longest {amounts.duration(n('pause_ns_max'))}; {n('pause_count'):,} so far"),
        ("next collection", f"{amounts.memory(n('fresh_bytes'))} of {amounts.memory(n('nursery_bytes'))} allocated"),
    ]


def _shared(now: Reading) -> str:
    """How much of its memory other processes have as well, the parent and the workers of a server that forks above all."""
    told = now.memory
    if "Pss" not in told:
        return "not told by this system"
    shared = told["Shared_Clean"] + told["Shared_Dirty"]
    return (f"{amounts.memory(shared)} with other processes, {amounts.memory(told['Private_Dirty'])} private dirty, PSS {amounts.memory(told['Pss'])}; "
            f"ashlar shared {now.pid} says what")


def _kinds(now: Reading, r: Rates) -> str:
    n, full = now.number, now.image.full_collections
    if full is None:
        return f"{n('minor_count'):,} minor and {n('major_count'):,} others so far"
    return f"{r.full_per_s:.3g}/s of them full; {n('minor_count'):,} minor, {n('major_count') - full:,} major and {full:,} full so far"


def heading(now: Reading, before: Reading | None) -> str:
    age_s = max(now.at_ns - now.image.taken_ns, 0) / 1e9
    of = f"rates of the last {rates(now, before).seconds:.1f} s" if before else "rates since the start"
    stale = f", numbers of {age_s:.0f} s ago" if age_s >= 5 else ""
    return f"{one_line(now.image.program)} ({now.pid}): {of}{stale}"


def text(now: Reading, before: Reading | None = None) -> str:
    """Plain lines, for a pipe."""
    return "\n".join([heading(now, before), *(f"  {name:16} {value}" for name, value in rows(now, before))])


NONE = f"no process that this user may read has live numbers; {image.UNSET}"


def listed(readings: Sequence[Reading]) -> str:
    if not readings:
        return NONE
    made = [(str(r.pid), r.image.program, amounts.memory(r.number("live_bytes")), amounts.memory(r.rss_bytes),
             f"{amounts.memory(rates(r, None).allocated_bytes_per_s)}/s", f"{100 * rates(r, None).collector_share:.1f} %", amounts.moment(r.image.started_ns / 1e9),
             amounts.setting(r.image.period_bytes) if r.image.sampling else "no") for r in sorted(readings, key=lambda r: r.pid)]
    return table_text(Table("processes", "", ("PID", "command", "live", "RSS", "allocation", "collector", "started", "samples every"), tuple(made)))


def fitting(lines: Sequence[str], size: os.terminal_size) -> list[str]:
    """What a terminal shows without scrolling, the last line in any case: what has scrolled away is not drawn over."""
    room = max(size.lines - 2, 0)
    return [visible(line)[:size.columns - 1] for line in [*lines[:-1][:room], lines[-1]]]


def watch(pid: int, every_s: float) -> None:
    """Refresh the terminal until interrupted, or until the process ends, which is no error once it was seen."""
    before, now, drawn = None, read(pid), 0
    try:
        while True:
            size = shutil.get_terminal_size()
            lines = fitting([*text(now, before).split("\n"), "Ctrl-C ends"], size)
            say((f"\x1b[{drawn}F\x1b[J" if drawn else "") + "\n".join(lines), flush=True, raw=True)
            drawn = len(lines)
            time.sleep(every_s)
            latest = read_again(pid, now)
            is_new = before is None or latest.image.taken_ns != now.image.taken_ns
            before, now = now if is_new else before, latest
    except KeyboardInterrupt:
        return
    except BadInput:
        if Path(f"/proc/{pid}").exists():
            raise
        say(f"process {pid} ended")
