#!/usr/bin/env python3
"""Record what a Ruby program is handed, how long it lives and what collecting costs: a trace, which crates/heap/tests/recorded/trace.rs
reads and describes. scripts/test/record-traces.sh records all of them. A single one:

    eval "$(scripts/ruby/env.sh --only-inside)"
    PYTHONPATH=lab/src scripts/test/record_trace.py splay.txt "$RUBY_INSIDE" workloads/ruby/splay.rb

The program runs five times:

- Every collection is a full one that comes after a step of 1 MiB. So the samples of the heap profile say in which step each was born and
  in which it died, whatever pacing would do. Unlike heaps say what an old cell costs.
- As shipped: the CPU time and the memory that the program takes beside the collector.
- With minor collections alone, in nurseries of 1 and of 8 MiB: what one costs, and a young cell.
- With major ones alone: what one costs beside its cells.

Nothing else should run on the machine.
"""

import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from bisect import bisect_left
from collections.abc import Iterator
from math import expm1
from pathlib import Path
from typing import NamedTuple

from ashlar.heap import image

STEP_BYTES = 1 << 20
LARGE_STEPS = 8
PERIOD_BYTES = 32 << 10
FILE_BYTES = 44 << 10  # what the code of a file lasts as: `lasting_bytes` in ruby/src/object_model.rs
REPORTER = Path(__file__).with_name("trace_reporter.rb")


def in_steps(steps: int) -> dict[str, str]:
    """Collections at once, each after so many steps."""
    nursery = str(steps * STEP_BYTES)
    return {"ASHLAR_NURSERY_MIN": nursery, "ASHLAR_NURSERY_MAX": nursery, "ASHLAR_INCREMENTAL": "0", "ASHLAR_THREADS": "1"}


ALL_FULL = in_steps(1) | {"RUBY_GC_HEAP_OLDOBJECT_LIMIT_FACTOR": "0.5", "ASHLAR_PROFILE_BYTES": str(PERIOD_BYTES)}
NONE_LARGER = {"ASHLAR_SPACE_OVERHEAD": "1000", "ASHLAR_HEAP_MIN": "1GiB"}


def stop(complaint: str) -> None:
    sys.exit(f"record_trace.py: {complaint}")


class Report(NamedTuple):
    """What trace_reporter.rb writes."""

    collections: int
    process_ns: int
    collector_ns: int
    files: int
    resident_bytes: int
    live_bytes: int


class Life(NamedTuple):
    """A sample's, in steps. `died` is None of one that lives at the end."""

    born: int
    died: int | None
    size_bytes: int
    is_payload: bool


class Run(NamedTuple):
    """`numbers` are those of the image, one reading after the other."""

    reports: list[Report]
    numbers: list[dict[str, int]]
    lives: list[Life]

    @property
    def steps(self) -> int:
        """What comes after the last collection is no whole step."""
        return self.reports[-1].collections

    def program_ns(self) -> int:
        return self.reports[-1].process_ns - self.reports[-1].collector_ns

    def mean_marking_ns(self) -> float:
        last = self.numbers[-1]
        return last["mark_ns"] / max(last["minor_count"] + last["major_count"], 1)


# ── A run ──────────────────────────────────────────────────────────────────

def run(command: list[str], settings: dict[str, str], sampled: bool = False) -> Run:
    with tempfile.TemporaryDirectory() as folder:
        reports = Path(folder, "reports")
        live = {"ASHLAR_PROFILE": f"{folder}/profile"} if sampled else {"ASHLAR_LIVE": "1"}
        environment = os.environ | settings | live | {"TRACE_REPORTS": str(reports)}
        process = subprocess.Popen([command[0], "-r", str(REPORTER), *command[1:]], env=environment, stdout=subprocess.DEVNULL)
        watched = Watched()
        for seen in images(process):
            watched.note(seen)
        if process.wait():
            stop(f"{command[0]} ended with status {process.returncode}; it has to be a Ruby with Ashlar inside, and the program has to succeed")
        lines = [Report(*map(int, line.split())) for line in reports.read_text().splitlines()]
    found = Run(sorted(lines), watched.numbers, watched.lives + watched.alive_lives())
    if not found.numbers or found.steps < 2:
        stop(f"{command[-1]} was over after {len(found.numbers)} readings and {found.steps if lines else 0} collections; give it more work")
    if sampled and watched.missed > found.steps / 20:
        stop(f"{watched.missed} of {found.steps} collections went by between two readings; quiet the machine")
    return found


class Seen(NamedTuple):
    """One reading of an image (docs/reference/heap-profile.md). A sample has its address, site, collection, bytes and time."""

    full_collection: int
    numbers: dict[str, int]
    samples: list[tuple[int, int, int, int, int]]
    payload_sites: set[int]


def images(process: subprocess.Popen) -> Iterator[Seen]:
    """The program's image, again and again until it is gone. What the lab reads in an image would take longer than a collection."""
    descriptor = None
    while process.poll() is None:
        try:
            descriptor = descriptor or os.open(image.image_path(process.pid), os.O_RDONLY)
            seen = read(descriptor)
            if seen:
                yield seen
        except (image.BadInput, OSError):
            pass  # it has none yet, or is about to end
        time.sleep(0.0002)
    if descriptor:
        os.close(descriptor)


def read(descriptor: int) -> Seen | None:
    """None where the program has changed the image meanwhile."""
    header = os.pread(descriptor, image.HEADER_BYTES, 0)
    (samples, sites) = (table(descriptor, header, number) for number in (4, 3))
    if os.pread(descriptor, 8, 16) != header[16:24]:
        return None
    found = image.parse("the program", lambda offset, count: header[offset:offset + count], tables=False)
    if found.torn:
        return None
    kinds = struct.iter_unpack("<8xI84x", sites)
    samples_there = [sample for sample in struct.iter_unpack("<QIIQQ", samples) if sample[0]]
    return Seen(found.full_collection, found.numbers, samples_there, {site for site, (kind,) in enumerate(kinds) if kind})


def table(descriptor: int, header: bytes, number: int) -> bytes:
    offset, entry_bytes, used = struct.unpack_from("<QII", header, 128 + 24 * number)
    return os.pread(descriptor, entry_bytes * used, offset)


class Watched:
    """What the readings of one run's image say together."""

    def __init__(self) -> None:
        self.numbers: list[dict[str, int]] = []
        self.lives: list[Life] = []
        self.alive: dict[tuple, bool] = {}
        self.collections = 0
        self.missed = 0

    def note(self, seen: Seen) -> None:
        """Samples that go while the number of collections seems to stand still have died in one that is not over yet, or been freed by the
        program. Step n ends with collection n + 1, so what dies in the latest collection has died in the step before it."""
        if not self.numbers or self.numbers[-1] != seen.numbers:
            self.numbers.append(seen.numbers)
        now = {sample: sample[1] in seen.payload_sites for sample in seen.samples}
        before, self.collections = self.collections, max([seen.full_collection, self.collections, *(sample[2] for sample in now)])
        self.missed += max(self.collections - before - 1, 0)
        died = before if self.collections == before else self.collections - 1
        self.lives += [Life(sample[2], died, sample[3], payload) for sample, payload in self.alive.items() if sample not in now]
        self.alive = now

    def alive_lives(self) -> list[Life]:
        return [Life(sample[2], None, sample[3], payload) for sample, payload in self.alive.items()]


# ── What the runs say ──────────────────────────────────────────────────────

Cohorts = dict[tuple[int, int | None], list[float]]


def weighed(full: Run) -> Cohorts:
    """Cells, bytes of cells and bytes of payloads that the samples stand for, by when they were born and died. What was born and died
    in one step is what is missing of the step."""
    found: Cohorts = {}
    for life in full.lives:
        if life.born >= full.steps or life.died is not None and life.died <= life.born:
            continue
        objects = -1 / expm1(-life.size_bytes / PERIOD_BYTES)
        sums = found.setdefault((life.born, life.died), [0.0, 0.0, 0.0])
        if life.is_payload:
            sums[2] += objects * life.size_bytes
        else:
            sums[0] += objects
            sums[1] += objects * life.size_bytes
    return found


def steps(full: Run, program_ns: int) -> list[tuple[int, int]]:
    """CPU time of the program in µs, which takes `program_ns` as shipped, and files loaded by its end, of each step."""
    at = [between_reports(full.reports, collections) for collections in range(full.steps + 1)]
    scale = program_ns / full.program_ns() / 1000
    spent = [report.process_ns - report.collector_ns for report in at]
    return [(round(max(after - before, 0) * scale), report.files) for before, after, report in zip(spent, spent[1:], at[1:])]


def between_reports(reports: list[Report], collections: int) -> Report:
    """What a report would have said after so many collections."""
    index = bisect_left(reports, collections, key=lambda report: report.collections)
    later = reports[index]
    before = reports[index - 1] if index else Report(0, 0, 0, 0, 0, 0)
    share = (collections - before.collections) / max(later.collections - before.collections, 1)
    return Report(*(round(low + (high - low) * share) for low, high in zip(before, later)))


class Costs(NamedTuple):
    """In ns: of a minor, a major and a full collection beside its cells, of a young cell that they mark, and of an old one."""

    minor: float
    major: float
    full: float
    young_cell: float
    old_cell: float


def costs(full: Run, major: Run, minor: dict[int, Run], cohorts: Cohorts) -> Costs:
    """Full collections of unlike heaps say what a cell costs them, and minor ones of two nurseries what a young cell costs those."""
    points = [(after["live_cells"], (after["mark_ns"] - before["mark_ns"]) / fulls)
              for before, after in zip(full.numbers, full.numbers[1:]) if (fulls := after["full_count"] - before["full_count"]) > 0]
    cells, ns = (sum(values) / len(points) for values in zip(*points))
    spread = sum((x - cells) ** 2 for x, _ in points)
    slope_ns = sum((x - cells) * (y - ns) for x, y in points) / max(spread, 1)
    old_ns = min(max(slope_ns, ns / cells / 2), ns / cells)
    small, large = ((marked_cells(cohorts, full.steps, steps), run.mean_marking_ns()) for steps, run in sorted(minor.items()))
    slope_ns = (large[1] - small[1]) / max(large[0] - small[0], 1)
    minor_ns = max(small[1] - small[0] * slope_ns, small[1] / 5)  # roots take some time
    young_ns = max(large[1] - minor_ns, 0) / max(large[0], 1)
    major_ns = max(major.mean_marking_ns() - small[0] * young_ns, minor_ns)
    print(f"  minor {small[1]:.0f} ns for {small[0]:.0f} cells, {large[1]:.0f} ns for {large[0]:.0f}; full {ns:.0f} ns for {cells:.0f}", file=sys.stderr)
    return Costs(minor_ns, major_ns, max(ns - cells * old_ns, major_ns), young_ns, old_ns)


def marked_cells(cohorts: Cohorts, count: int, steps: int) -> float:
    """Young cells that a minor collection finds alive, in the mean, if one comes after so many steps. The fourth finds a cell old."""
    found = 0.0
    for (born, died), (cells, _, _) in cohorts.items():
        first = born // steps
        found += cells * sum(1 for collection in range(first, first + 3) if died is None or died >= (collection + 1) * steps)
    return found * steps / count


def other_bytes(shipped: Run) -> int:
    """Memory of the process beside what is live in the heap: the least in the later half of the run, when there was the least garbage."""
    half = shipped.reports[len(shipped.reports) // 2:]
    return min(report.resident_bytes - report.live_bytes for report in half)


# ── The file ───────────────────────────────────────────────────────────────

def main() -> None:
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    target, command = Path(sys.argv[1]), sys.argv[2:]
    if not shutil.which(command[0]):
        stop(f"'{command[0]}' is no program; give a Ruby with Ashlar inside")
    if not target.parent.is_dir():
        stop(f"there is no folder {target.parent} for {target.name}")
    full, shipped = run(command, ALL_FULL, sampled=True), run(command, {})
    minor = {steps: run(command, in_steps(steps) | NONE_LARGER) for steps in (1, LARGE_STEPS)}
    major = run(command, in_steps(1) | NONE_LARGER | {"ASHLAR_STRESS": "no-minor"})
    cohorts = weighed(full)
    cost = costs(full, major, minor, cohorts)
    last = shipped.numbers[-1]
    counts = (last["minor_count"], last["major_count"] - last["full_count"], last["full_count"])
    lines = [f"minor_ns {cost.minor:.0f}", f"major_ns {cost.major:.0f}", f"full_ns {cost.full:.0f}",
             f"young_cell_ns {cost.young_cell:.1f}", f"old_cell_ns {cost.old_cell:.1f}", f"other_bytes {other_bytes(shipped)}",
             "shipped " + " ".join(map(str, (*counts, last["mark_ns"])))]
    lines += [f"step {us} {files * FILE_BYTES}" for us, files in steps(full, shipped.program_ns())]
    lines += [f"life {born} {'-' if died is None else died} {sums[0]:.0f} {sums[1]:.0f} {sums[2]:.0f}"
              for (born, died), sums in sorted(cohorts.items(), key=lambda item: (item[0][0], item[0][1] or 1 << 60))]
    target.write_text("\n".join(lines) + "\n")
    print(f"{target.name}: {full.steps} steps, program {shipped.program_ns() / 1e6:.0f} ms; shipped: {counts[0]} minor, {counts[1]} major, {counts[2]} full, "
          f"marking {last['mark_ns'] / 1e6:.0f} ms", file=sys.stderr)


main()
