"""A process from outside: its mappings, which of their pages it has to itself, and what they hold. Nothing is stopped or written."""

import os
import re
from collections.abc import Iterator
from functools import cache, cached_property, partial
from pathlib import Path
from typing import NamedTuple

from ashlar import processes

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

# Bits of the highest byte of an entry of /proc/PID/pagemap.
PRESENT, SWAPPED, OF_FILE, EXCLUSIVE = 0x80, 0x40, 0x20, 0x01
_CHUNK_PAGES = 1 << 18


def which(mask: int, wanted: int) -> bytes:
    """A table for `bytes.translate`: 1 for each byte whose bits of `mask` are `wanted`."""
    return bytes(byte & mask == wanted for byte in range(256))


@cache
def some_of(bits: int) -> bytes:
    """The same, for each byte that has some of these bits."""
    return bytes(byte & bits != 0 for byte in range(256))


class Mapping(NamedTuple):
    start: int
    end: int
    permissions: str
    offset: int
    path: str


reading = partial(processes.reading, what="the memory of process", gone="give the number of a parent that runs",
                  refused="be root, or its user where kernel.yama.ptrace_scope is 0")


class Process:
    """One process. Opening it needs the right to trace it; what goes wrong later is that it has ended.

    `own_number` is what it calls itself, another number than ours for it in a container that numbers its own processes. `started` is when it began, in
    ticks since the machine's start."""

    def __init__(self, pid: int):
        self.pid, self.name = pid, processes.name_of(pid)
        with reading(pid):
            self.own_number, self.started = _own_number(pid), _started(pid)
            self._memory = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
            self._pagemap = os.open(f"/proc/{pid}/pagemap", os.O_RDONLY | os.O_CLOEXEC)

    @cached_property
    def mappings(self) -> list[Mapping]:
        with reading(self.pid):
            return mappings(Path(f"/proc/{self.pid}/maps").read_bytes())

    @cached_property
    def rollup(self) -> dict[str, int]:
        with reading(self.pid):
            return processes.rollup(self.pid)

    @cached_property
    def stack_pointers(self) -> list[int]:
        """Of the threads that wait in a call of the system; one that runs has none here."""
        found = []
        with reading(self.pid):
            threads = os.listdir(f"/proc/{self.pid}/task")
        for thread in threads:
            words = processes.told("", Path(f"/proc/{self.pid}/task/{thread}/syscall").read_text).split()
            if len(words) >= 3:
                found.append(int(words[-2], 16))
        return found

    def pages(self, start: int, end: int) -> bytes:
        """The highest byte of the entry of pagemap of each page of a range."""
        first, last, parts = start // PAGE_BYTES, -(-end // PAGE_BYTES), []
        with reading(self.pid):
            while first < last:
                part = os.pread(self._pagemap, 8 * min(last - first, _CHUNK_PAGES), 8 * first)
                if not part:
                    raise ProcessLookupError
                parts.append(part[7::8])
                first += len(part) // 8
        return b"".join(parts)

    def read(self, start: int, count: int) -> bytes:
        """What memory holds; fewer bytes, or none, where some is not readable."""
        with reading(self.pid):
            try:
                return os.pread(self._memory, count, start)
            except ProcessLookupError:
                raise
            except OSError:
                return b""

    def read_held(self, start: int, count: int) -> bytearray:
        """Bytes of a range of whole pages, zero where it holds no memory: what is not there is not brought in."""
        made = bytearray(count)
        for first, last in runs(self.pages(start, start + count).translate(some_of(PRESENT | SWAPPED))):
            at, size = first * PAGE_BYTES, min(last * PAGE_BYTES, count) - first * PAGE_BYTES
            found = b""
            while len(found) < size and (part := self.read(start + at + len(found), size - len(found))):
                found += part
            made[at:at + len(found)] = found
        return made

    def read_somewhere(self, start: int, count: int) -> bytes:
        """The same of any range; nothing where it does not lie in one mapping that can be read."""
        if not any(m.start <= start and start + count <= m.end and m.permissions[0] == "r" and not m.path.startswith("[v") for m in self.mappings):
            return b""
        before = start % PAGE_BYTES
        return bytes(self.read_held(start - before, -(-(before + count) // PAGE_BYTES) * PAGE_BYTES)[before:before + count])

    def close(self) -> None:
        os.close(self._memory)
        os.close(self._pagemap)


def _own_number(pid: int) -> int:
    return int(processes.status(pid).get("NSpid", str(pid)).split()[-1])


def _started(pid: int) -> int:
    if not (told := processes.stat(pid)):
        raise ProcessLookupError
    return told.started


def mappings(content: bytes) -> list[Mapping]:
    """What /proc/PID/maps says. The name of a file is bytes, and may hold any but the end of a line, which the system writes out."""
    return [mapping(line) for line in content.decode(errors="surrogateescape").split("\n") if line]


def mapping(line: str) -> Mapping:
    """A line of /proc/PID/maps."""
    fields = line.split(None, 5)
    start, end = (int(n, 16) for n in fields[0].split("-"))
    return Mapping(start, end, fields[1], int(fields[2], 16), fields[5] if len(fields) > 5 else "")


def runs(wanted: bytes) -> Iterator[tuple[int, int]]:
    """Where ones follow each other: first, and one past the last."""
    return (found.span() for found in re.finditer(b"\x01+", wanted))


def tree(pid: int) -> dict[int, int]:
    """A process and all that it and its children have started, each with its parent, a parent before its children."""
    with reading(pid):
        if not (first := processes.stat(pid)):
            raise ProcessLookupError
    return {pid: first.parent, **{child: parent for child, parent in processes.descendants(pid) if processes.stat(child)}}
