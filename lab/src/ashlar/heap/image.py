"""The image that the library keeps: its header, its numbers and its tables, from a file or from a process that runs.

Nothing of a process is stopped. A live image is copied between two readings of its sequence number, and copied again when it
was changed meanwhile.
"""

import contextlib
import os
import stat
import struct
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from ashlar import processes
from ashlar.errors import BadInput

MAGIC = b"ASHLARHP"
VERSION = 1
HEADER_BYTES = 4096
LINK = "/memfd:ashlar-live (deleted)"
ORIGINS = ("live", "on request", "at the end of the program", "at a crash")

# What the library writes, in its order; `make documents` has it from there.
NUMBERS = {
    "live_bytes": "live memory: cells, payloads, and memory elsewhere that objects own",
    "cell_bytes": "live cells",
    "payload_bytes": "payloads in use, as their size classes round them",
    "external_bytes": "memory elsewhere that objects own",
    "cell_block_bytes": "blocks of cells",
    "spare_bytes": "empty blocks that have memory",
    "hole_bytes": "free space inside blocks of cells",
    "live_cells": "cells in use, and dead ones that are not freed yet",
    "allocated_objects": "cells allocated so far",
    "allocated_bytes": "memory allocated so far",
    "minor_count": "minor collections",
    "major_count": "collections that are not minor, full ones among them",
    "collector_ns": "CPU time of the process in the collector",
    "mark_ns": "CPU time of the collector spent marking",
    "sweep_ns": "CPU time of the collector spent sweeping",
    "pause_count": "pauses of the program by the collector",
    "pause_ns": "the lengths of all pauses together",
    "pause_ns_max": "the length of the longest pause",
    "pause_ns_p50": "the median length of a pause",
    "pause_ns_p99": "the 99th percentile of the lengths of pauses",
    "memory_limit_bytes": "the memory limit, 0 when there is none",
    "nursery_bytes": "what may be allocated between two collections",
    "fresh_bytes": "what was allocated since the latest collection",
    "old_cells": "old cells, which minor collections do not free",
    "payload_block_bytes": "blocks of payloads",
    "full_count": "full collections, which look at settled cells, too",
}
AGES = ("0", "1", "2–3", "4–7", "8–15", "16–31", "32–63", "64 or more")


class Site(NamedTuple):
    """`stack` is a node, `class_name` the offset of a string; `kind` is 1 of payloads. `died` counts samples by age, as in `AGES`."""

    stack: int
    class_name: int
    kind: int
    width: int
    allocated_samples: int
    allocated_objects: float
    allocated_bytes: float
    live_samples: int
    live_objects: float
    live_bytes: float
    died: tuple[int, ...]


class Sample(NamedTuple):
    """A live one; a place that is empty has address 0. `site` is an index."""

    address: int
    site: int
    collection: int
    size_bytes: int
    made_ms: int


_BYTES_MAX = 64 << 20  # an image has 4 MiB; another user's process may show anything to root
_SUM_MAX = 2.0 ** 80  # of objects and of bytes: no program comes near it
_FRAMES_MAX = 2048  # the library keeps 512; every site of an image that is damaged may have all its nodes in its stack

# What an entry of each table holds at least; a later version may make entries longer.
_TABLES = {"strings": "B", "frames": "4I", "stacks": "3I", "sites": "4IQddQdd8I", "samples": "QIIQQ"}
_HEADER = struct.Struct("<8sII6Q4IQIIQ")
_DIRECTORY, _DIRECTORY_ENTRY = 128, struct.Struct("<QIIII")
_COMMAND, _RUBY = 1024, 2048


class Image(NamedTuple):
    """One image. `period_bytes` is the mean number of bytes between two samples, 0 when nothing was sampled. `numbers` has those of
    `NUMBERS` that the writer knew: `major_count` is of all that are not minor, `full_count` of those among them that are full.
    `full_collection` is the number of the latest full collection that is over, 0 for none: a live sample that was made before it was found live by it. `stacks` has the caller, the frame and the line of each node, `samples` only places that are not empty.
    `frames` has of each the offsets of its label and its path, its first line, and whether it is known. docs/reference/heap-profile.md says what the
    tables hold."""

    source: str
    pid: int
    started_ns: int
    taken_ns: int
    period_bytes: int
    samples_lost: int
    sampling_since_ns: int
    sampling: bool
    origin: str
    torn: bool
    full_collection: int
    command: str
    ruby: str
    numbers: dict[str, int]
    strings: bytes
    frames: list[tuple[int, int, int, int]]
    stacks: list[tuple[int, int, int]]
    sites: list[Site]
    samples: list[Sample]

    @property
    def program(self) -> str:
        """The command line without the folder that the interpreter lies in; the file's name where there is none."""
        name, blank, rest = self.command.partition(" ")
        return f"{name.rpartition('/')[2]}{blank}{rest}" or self.source.rpartition("/")[2]

    @property
    def collections(self) -> int:
        """How many collections there have been, of every kind."""
        return self.numbers.get("minor_count", 0) + self.numbers.get("major_count", 0)

    @property
    def full_collections(self) -> int | None:
        """How many of them were full; None where the writer did not tell them from major ones."""
        return self.numbers.get("full_count")

    def string(self, offset: int) -> str:
        """The string at this offset of its table."""
        if offset + 4 > len(self.strings):
            raise _damaged(self.source, f"a string at {offset}, beyond the {len(self.strings)} bytes of strings")
        length = int.from_bytes(self.strings[offset:offset + 4], "little")
        if offset + 4 + length > len(self.strings):
            raise _damaged(self.source, f"a string of {length} bytes at {offset}, beyond the {len(self.strings)} bytes of strings")
        return self.strings[offset + 4:offset + 4 + length].decode("utf-8", "replace")

    def stack(self, node: int) -> list[tuple[int, int]]:
        """Frame numbers and lines, innermost first. A node stands after the one that called it."""
        found = []
        while node:
            if node >= len(self.stacks):
                raise _damaged(self.source, f"a stack at {node}, and {len(self.stacks)} nodes of stacks")
            if len(found) == _FRAMES_MAX:
                raise _damaged(self.source, f"a stack of more than {_FRAMES_MAX} frames")
            caller, frame, line = self.stacks[node]
            if caller >= node:
                raise _damaged(self.source, f"a node of stacks at {node} that is called by a later one, {caller}")
            if frame >= len(self.frames):
                raise _damaged(self.source, f"a stack with frame {frame}, and {len(self.frames)} frames")
            found.append((frame, line))
            node = caller
        return found


def _damaged(source: str, what: str) -> BadInput:
    return BadInput(f"{source} is damaged: it has {what}; take another profile")


# ── Bytes to an image ──────────────────────────────────────────────────────

def parse(source: str, read: Callable[[int, int], bytes], tables: bool = True) -> Image:
    """The image whose bytes `read(offset, count)` gives, fewer at its end. Without `tables` only header and numbers are read."""
    header = read(0, HEADER_BYTES)
    if header[:8] != MAGIC:
        raise BadInput(f"{source} is no heap profile: it does not begin with {MAGIC.decode()}; ASHLAR_PROFILE=FILE makes one")
    if len(header) < HEADER_BYTES:
        raise BadInput(f"{source} is truncated: it ends after {len(header)} of the header's {HEADER_BYTES} bytes; take another profile")
    (_, version, header_bytes, sequence, pid, started_ns, taken_ns, period, lost, count, at, table_count, directory,
     since_ns, sampling, origin, full_collection) = _HEADER.unpack_from(header)
    if version != VERSION:
        raise BadInput(f"{source} has version {version} of the format, and this ashlar reads version {VERSION}; "
                       f"use the ashlar that came with the library that wrote it")
    if header_bytes != HEADER_BYTES:
        raise _damaged(source, f"a header of {header_bytes} bytes in place of {HEADER_BYTES}")
    if at + 8 * count > HEADER_BYTES:
        raise _damaged(source, f"{count} numbers at {at}, beyond its header")
    numbers = dict(zip(NUMBERS, struct.unpack_from(f"<{count}Q", header, at)))
    found = _tables(source, header, read, table_count, directory) if tables and period else dict.fromkeys(_TABLES, ())
    image = Image(
        source=source, pid=pid, started_ns=started_ns, taken_ns=taken_ns, period_bytes=period, samples_lost=lost, sampling_since_ns=since_ns,
        sampling=bool(sampling), origin=ORIGINS[origin] if origin < len(ORIGINS) else "live", torn=bool(sequence & 1),
        full_collection=full_collection, command=_text(header, _COMMAND, _RUBY), ruby=_text(header, _RUBY, HEADER_BYTES), numbers=numbers,
        strings=bytes(found["strings"]), frames=list(found["frames"]), stacks=list(found["stacks"]),
        sites=[Site(*entry[:10], entry[10:]) for entry in found["sites"]], samples=[Sample(*entry) for entry in found["samples"] if entry[0]])
    _check(image)
    return image


def _text(header: bytes, start: int, end: int) -> str:
    return header[start:end].split(b"\0", 1)[0].decode("utf-8", "replace")


def _tables(source: str, header: bytes, read, count: int, directory: int) -> dict:
    if count < len(_TABLES) or directory + count * _DIRECTORY_ENTRY.size > HEADER_BYTES:
        raise _damaged(source, f"{count} tables at {directory} in place of {len(_TABLES)} at {_DIRECTORY}")
    found = {}
    for i, (name, form) in enumerate(_TABLES.items()):
        offset, entry, used, room, _ = _DIRECTORY_ENTRY.unpack_from(header, directory + i * _DIRECTORY_ENTRY.size)
        least = struct.calcsize(f"<{form}")
        if entry < least or (name == "strings" and entry != least) or used > room:
            raise _damaged(source, f"a table of {name} with {used} entries of {entry} bytes and room for {room}")
        if offset + entry * used > _BYTES_MAX:
            raise _damaged(source, f"a table of {name} that ends at byte {offset + entry * used}")
        content = read(offset, entry * used)
        if len(content) < entry * used:
            raise BadInput(f"{source} is truncated: it ends inside its table of {name}, at {offset + len(content)} of {offset + entry * used} bytes; "
                           "take another profile")
        found[name] = content if name == "strings" else struct.iter_unpack(f"<{form}{entry - least}x", content)
    return found


def _check(image: Image) -> None:
    """What a later step relies on, so that damage is named here."""
    last = max((s.site for s in image.samples), default=-1)
    if last >= len(image.sites):
        raise _damaged(image.source, f"a sample of site {last}, and {len(image.sites)} sites")
    for field in ("allocated_objects", "allocated_bytes", "live_objects", "live_bytes"):
        if not all(abs(getattr(site, field)) < _SUM_MAX for site in image.sites):  # of NaN this is not true either
            raise _damaged(image.source, f"a site whose {field.replace('_', ' ')} are no number that can be")


# ── From a file ────────────────────────────────────────────────────────────

def read_file(path: Path) -> Image:
    try:
        with path.open("rb") as file:
            content = file.read(len(MAGIC))
            if content == MAGIC:  # a dump of the heap, given by mistake, may be larger than the memory
                content += file.read()
    except OSError as error:
        raise BadInput(f"cannot read the profile {path}: {error.strerror}; give a file that ASHLAR_PROFILE=FILE wrote, or a process's number") from None
    return parse(str(path), lambda offset, count: content[offset:offset + count])


# ── From a process ─────────────────────────────────────────────────────────

_PATIENCE_S = 2.0
_OPEN = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC  # waits for nobody, if it is a pipe by now
UNSET = "start it with ASHLAR_LIVE=1 for live numbers, or with ASHLAR_PROFILE=FILE for a profile as well"


reading = partial(processes.reading, what="process", gone="ashlar top lists those that have live numbers", refused="become its user, or root")


def read_process(pid: int, tables: bool = True) -> Image:
    """The image of a process that runs."""
    source = f"process {pid}"
    with reading(pid):
        owner = os.stat(f"/proc/{pid}").st_uid
        descriptor = os.open(image_path(pid), _OPEN)
    try:
        found = os.fstat(descriptor)
        if found.st_uid not in (owner, 0) or found.st_size > _BYTES_MAX or not stat.S_ISREG(found.st_mode):
            raise BadInput(f"the live image of {source} is not its own: it belongs to user {found.st_uid} and has {found.st_size} bytes; "
                           "look at what runs there")
        image = _read_unchanged(source, descriptor, tables)
    finally:
        os.close(descriptor)
    return image if image.command else image._replace(command=_command_of(pid))


def _read_unchanged(source: str, descriptor: int, tables: bool) -> Image:
    """Copy until no change falls into the copying. A damaged copy that was changed meanwhile is copied again as well."""
    until, pause_s = time.monotonic() + _PATIENCE_S, 0.0005
    while True:
        before = os.pread(descriptor, 8, 16)
        image = problem = None
        if len(before) < 8 or not before[0] & 1:
            try:
                image = parse(source, lambda offset, count: os.pread(descriptor, count, offset), tables)
            except BadInput as error:
                problem = error
            if os.pread(descriptor, 8, 16) == before:
                if problem:
                    raise problem
                return image
        if time.monotonic() > until:
            raise BadInput(f"the image of {source} changed at every reading for {_PATIENCE_S:g} s, or the process stands still in the middle of a change; "
                           "try again")
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, 0.05)


def image_path(pid: int) -> str:
    """The descriptor of the image that the process itself writes: one inherited over a fork has another process's number in it."""
    in_its_namespace = processes.told({}, processes.status, pid).get("NSpid", str(pid)).split()[-1]  # the number that a process of a container has for itself
    folder, numbers = f"/proc/{pid}/fd", (pid, int(in_its_namespace))
    own = [path for name in sorted(os.listdir(folder), key=int) if _number_inside(path := f"{folder}/{name}") in numbers]
    if not own:
        raise BadInput(f"process {pid} ({processes.name_of(pid)}) has no live image; {UNSET}")
    return own[-1]


def _number_inside(path: str) -> int:
    """The number of the process whose image a descriptor is of; 0 for what is no image. Where another root is, anything may bear the
    name of an image: a pipe, too, at which a reader waits."""
    with contextlib.suppress(OSError):
        if os.readlink(path) == LINK and _has_no_name(os.stat(path)):
            descriptor = os.open(path, _OPEN)
            try:
                return int.from_bytes(os.pread(descriptor, 8, 24), "little")
            finally:
                os.close(descriptor)
    return 0


def _has_no_name(found: os.stat_result) -> bool:
    return stat.S_ISREG(found.st_mode) and not found.st_nlink


def _command_of(pid: int) -> str:
    """An image has no command line unless that was asked for; of a process that runs the system tells it."""
    arguments = processes.told(b"", Path(f"/proc/{pid}/cmdline").read_bytes)
    return arguments.replace(b"\0", b" ").decode("utf-8", "replace").rstrip()


def with_image() -> Iterator[int]:
    """The processes that have an image and that this user may read."""
    for pid in processes.numbers():
        with contextlib.suppress(BadInput, OSError):
            image_path(pid)
            yield pid
