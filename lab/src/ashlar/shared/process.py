"""A process from outside: its mappings, which of their pages it has to itself, and what they hold. Nothing is stopped or written."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ashlar.errors import BadInput
from ashlar.processes import name_of, numbers, rollup, stat

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

# Bits of the highest byte of an entry of /proc/PID/pagemap.
PRESENT, SWAPPED, OF_FILE, EXCLUSIVE = 0x80, 0x40, 0x20, 0x01
_CHUNK_PAGES = 1 << 18


def which(mask: int, wanted: int) -> bytes:
    """A table for `bytes.translate`: 1 for each byte whose bits of `mask` are `wanted`."""
    return bytes(byte & mask == wanted for byte in range(256))


_HELD = bytes(byte & (PRESENT | SWAPPED) != 0 for byte in range(256))


@dataclass(frozen=True)
class Mapping:
    start: int
    end: int
    permissions: str
    offset: int
    path: str


class Process:
    """One process. Opening it needs the right to trace it; what goes wrong later is that it has ended."""

    def __init__(self, pid: int):
        self.pid, self.name = pid, name_of(pid)
        try:
            self._memory = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
            self._pagemap = os.open(f"/proc/{pid}/pagemap", os.O_RDONLY | os.O_CLOEXEC)
        except (FileNotFoundError, ProcessLookupError):
            raise gone(pid) from None
        except PermissionError:
            raise _not_allowed(pid, self.name) from None

    @cached_property
    def mappings(self) -> list[Mapping]:
        return [mapping(line) for line in self._told(lambda pid: Path(f"/proc/{pid}/maps").read_text()).splitlines()]

    @cached_property
    def rollup(self) -> dict[str, int]:
        return self._told(rollup)

    @cached_property
    def stack_pointers(self) -> list[int]:
        """Of the threads that wait in a call of the system; one that runs has none here."""
        found = []
        for thread in os.listdir(f"/proc/{self.pid}/task"):
            try:
                words = Path(f"/proc/{self.pid}/task/{thread}/syscall").read_text().split()
            except OSError:
                continue
            if len(words) >= 3:
                found.append(int(words[-2], 16))
        return found

    def _told(self, read: Callable):
        try:
            return read(self.pid)
        except PermissionError:
            raise _not_allowed(self.pid, self.name) from None
        except OSError:
            raise gone(self.pid) from None

    def pages(self, start: int, end: int) -> bytes:
        """The highest byte of the entry of pagemap of each page of a range."""
        first, last, parts = start // PAGE_BYTES, -(-end // PAGE_BYTES), []
        while first < last:
            count = min(last - first, _CHUNK_PAGES)
            try:
                part = os.pread(self._pagemap, 8 * count, 8 * first)
            except OSError:
                raise gone(self.pid) from None
            if not part:
                raise gone(self.pid)
            parts.append(part[7::8])
            first += len(part) // 8
        return b"".join(parts)

    def read(self, start: int, count: int) -> bytes:
        """What memory holds; fewer bytes, or none, where some is not readable."""
        try:
            return os.pread(self._memory, count, start)
        except ProcessLookupError:
            raise gone(self.pid) from None
        except OSError:
            return b""

    def read_held(self, start: int, count: int) -> bytearray:
        """Bytes of a range of whole pages, zero where it holds no memory: what is not there is not brought in."""
        made = bytearray(count)
        for first, last in runs(self.pages(start, start + count).translate(_HELD)):
            at, size = first * PAGE_BYTES, min(last * PAGE_BYTES, count) - first * PAGE_BYTES
            found = b""
            while len(found) < size and (part := self.read(start + at + len(found), size - len(found))):
                found += part
            made[at:at + len(found)] = found
        return made

    def close(self) -> None:
        os.close(self._memory)
        os.close(self._pagemap)


def mapping(line: str) -> Mapping:
    """A line of /proc/PID/maps."""
    fields = line.split(None, 5)
    start, end = (int(n, 16) for n in fields[0].split("-"))
    return Mapping(start, end, fields[1], int(fields[2], 16), fields[5] if len(fields) > 5 else "")


def runs(wanted: bytes) -> Iterator[tuple[int, int]]:
    """Where ones follow each other: first, and one past the last."""
    return (found.span() for found in re.finditer(b"\x01+", wanted))


def tree(pid: int) -> list[tuple[int, int]]:
    """A process and all that it and its children have started, each with its parent, a parent before its children."""
    children: dict[int, list[int]] = {}
    for other in numbers():
        if told := stat(other):
            children.setdefault(told.parent, []).append(other)
    first = stat(pid)
    if not first:
        raise gone(pid)
    found = [(pid, first.parent)]
    for one, _ in found:
        found += [(child, one) for child in sorted(children.get(one, ()))]
    return found


def gone(pid: int) -> BadInput:
    return BadInput(f"there is no process {pid}; give the number of a parent that runs")


def _not_allowed(pid: int, name: str) -> BadInput:
    return BadInput(f"not allowed to read the memory of process {pid} ({name}); be root, or its user where kernel.yama.ptrace_scope is 0")
