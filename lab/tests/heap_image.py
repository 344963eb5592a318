"""Writes images as the library does (docs/reference/heap-profile.md), from a program that is made up: sites, and objects with a birth and a death.

`Program` keeps the same books as a sampled heap: what is added is a sample already, so that a test knows what it put in.
"""

from __future__ import annotations

import math
import os
import struct
from dataclasses import dataclass, field

from ashlar.heap.image import HEADER_BYTES, NUMBERS

PERIOD = 512 * 1024


@dataclass
class Sample:
    site: tuple
    size: int
    made: int  # how many collections there had been
    at_ms: int
    died: int | None = None  # the collection that found it dead


@dataclass
class Program:
    """`stack` is (label, path, line) from the innermost frame on; a path of None stands for code that is not Ruby's."""

    pid: int = 4242
    started_ns: int = 1_700_000_000_000_000_000
    period: int = PERIOD
    command: str = "ruby app.rb"
    minor: int = 0
    major: int = 0  # full ones not among them
    full: int = 0
    full_collection: int = 0  # the number of the latest full one
    tells_full: bool = True  # whether the writer tells full collections from other major ones
    numbers: dict = field(default_factory=dict)
    samples: list[Sample] = field(default_factory=list)

    @property
    def now_ms(self) -> int:
        return self.started_ns // 10 ** 6 + 1000 * self.collections

    @property
    def collections(self) -> int:
        return self.minor + self.major + self.full

    def allocate(self, stack, class_name="String", size=40, count=1, payload=False) -> list[Sample]:
        site = (tuple(stack), class_name, int(payload), 0 if payload else size)
        made = [Sample(site, size, self.collections, self.now_ms + i) for i in range(count)]
        self.samples += made
        return made

    def collect(self, dead=(), full=False, major=False) -> None:
        """One collection, which finds these dead."""
        self.minor, self.major, self.full = self.minor + (not full and not major), self.major + major, self.full + full
        if full:
            self.full_collection = self.collections
        for sample in dead:
            sample.died = self.collections

    def write(self, **changes) -> bytes:
        return image(self, **changes)


def weight(size: int, period: int) -> float:
    return 1 / -math.expm1(-size / period)


def image(program: Program, version=1, sequence=2, origin=1, lost=0, tables=True) -> bytes:
    strings = bytearray(b"\0\0\0\0")
    places: dict[str, int] = {"": 0}
    frames: dict[tuple, int] = {("", "", 0): 0}
    nodes: dict[tuple, int] = {(0, 0, 0): 0}
    sites: dict[tuple, list[Sample]] = {("cells",): [], ("payloads",): []}

    def text(s: str) -> int:
        if s not in places:
            places[s] = len(strings)
            strings.extend(struct.pack("<I", len(s.encode())) + s.encode())
            strings.extend(b"\0" * (-len(strings) % 4))
        return places[s]

    def node_of(stack) -> int:
        at = 0
        for label, path, line in reversed(stack):
            frame = 0 if path is None else frames.setdefault((label, path, 1), len(frames))
            at = nodes.setdefault((at, frame, line), len(nodes))
        return at

    for sample in program.samples:
        sites.setdefault(sample.site, []).append(sample)
    entries, live = bytearray(), bytearray()
    for number, (key, samples) in enumerate(sites.items()):
        stack, class_name, kind, width = key if len(key) == 4 else ((), "", int(key == ("payloads",)), 0)
        alive = [s for s in samples if s.died is None]
        died = [0] * 8
        for s in samples:
            if s.died is not None:
                survived = s.died - 1 - s.made
                died[min(survived.bit_length(), 7)] += 1
        sums = [(len(some), sum(weight(s.size, program.period) for s in some), sum(s.size * weight(s.size, program.period) for s in some))
                for some in (samples, alive)]
        entries += struct.pack("<4I Qdd Qdd 8I", node_of(stack), text(class_name), kind, width, *sums[0], *sums[1], *died)
        for s in alive:
            live += struct.pack("<QIIQQ", 0x7F0000000000 + 64 * len(live), number, s.made, s.size, s.at_ms) + b"\0" * 32  # an empty place as well
    frame_table = b"".join(struct.pack("<4I", text(label), text(path), first, int(i > 0)) for i, (label, path, first) in enumerate(frames))
    node_table = b"".join(struct.pack("<3I", *node) for node in nodes)
    contents = [(bytes(strings), 1), (frame_table, 16), (node_table, 12), (bytes(entries), 96), (bytes(live), 32)]
    return header(program, contents if tables and program.period else [], version, sequence, origin, lost)


def header(program: Program, contents, version, sequence, origin, lost) -> bytes:
    numbers = {"minor_count": program.minor, "major_count": program.major + program.full, "full_count": program.full, **program.numbers}
    out = bytearray(HEADER_BYTES)
    taken_ns = program.now_ms * 10 ** 6
    out[:8] = b"ASHLARHP"
    struct.pack_into("<II6Q", out, 8, version, HEADER_BYTES, sequence, program.pid, program.started_ns, taken_ns, program.period, lost)
    names = list(NUMBERS)
    known = names if program.tells_full else names[:names.index("full_count")]
    struct.pack_into("<4IQIIQ", out, 64, len(known), 512, len(contents), 128, program.started_ns, 1, origin, program.full_collection)
    struct.pack_into(f"<{len(known)}Q", out, 512, *(numbers.get(name, 0) for name in known))
    for at, said in ((1024, program.command), (2048, "ruby 3.4.5 +ASHLAR")):
        out[at:at + len(said.encode())] = said.encode()
    at, body = HEADER_BYTES, bytearray()
    for i, (content, entry) in enumerate(contents):
        struct.pack_into("<QIIII", out, 128 + 24 * i, at + len(body), entry, len(content) // entry, len(content) // entry + 100, 0)
        body += content + b"\0" * (-len(content) % 8)
    return bytes(out + body)


LEAK = [("Cache#put", "/srv/app/cache.rb", 12), ("Worker#run", "/srv/app/worker.rb", 30), ("<main>", "/srv/app/app.rb", 3)]
TEMPORARY = [("Array#map", None, 0), ("View#render", "/srv/app/view.rb", 7), ("Worker#run", "/srv/app/worker.rb", 31), ("<main>", "/srv/app/app.rb", 3)]
GEM = [("Rack::Utils.parse", "/usr/lib/ruby/gems/3.4.0/gems/rack-3.1/lib/rack/utils.rb", 80), ("<main>", "/srv/app/app.rb", 3)]


def busy(leaks=30, temporaries=200) -> Program:
    """A program with one line that keeps and one that does not, over ten collections."""
    program = Program()
    for i in range(10):
        program.allocate(LEAK, "String", 640, leaks // 10)
        dead = program.allocate(TEMPORARY, "Array<b>", 160, temporaries // 10) + program.allocate(GEM, "Hash", 100_000, 1, payload=True)
        program.collect(dead, full=i % 4 == 3)
    program.numbers.update(live_bytes=16_000_000, allocated_bytes=120_000_000, collector_ns=2 * 10 ** 9, pause_count=12, pause_ns=10 ** 8,
                           pause_ns_max=30_000_000, pause_ns_p50=2_000_000, pause_ns_p99=29_000_000, cell_bytes=9_000_000, payload_bytes=7_000_000,
                           memory_limit_bytes=2 ** 30, live_cells=123_456)
    return program


def publish(content: bytes, name: str = "ashlar-live") -> int:
    """This process's own image, as the library publishes it; the descriptor."""
    descriptor = os.memfd_create(name)
    os.write(descriptor, content)
    return descriptor
