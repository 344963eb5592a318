"""One process's heap at one moment: what each block holds, which cells and pieces live, and which pages are the process's own."""

from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from operator import itemgetter

from ashlar.shared.outline import Outline
from ashlar.shared.process import EXCLUSIVE, PAGE_BYTES, PRESENT, Process, some_of, which

CELLS, PAYLOADS, CODE, LARGE, EMPTY = "cells", "payloads", "caches of code", "large", "empty"
_OWN = which(PRESENT | EXCLUSIVE, PRESENT | EXCLUSIVE)


@dataclass(frozen=True)
class Heap:
    """Tables of blocks, one after the other: `kinds`, the `states` of their granules, the `entries` of their descriptors, and pagemap's byte of each
    of their pages in `all_pages`. `forker` is the heap of the process that it was forked from, where that is known."""

    process: Process
    outline: Outline
    kinds: bytes
    states: bytes
    entries: bytes
    all_pages: bytes
    forker: "Heap | None" = None

    def __len__(self) -> int:
        return len(self.kinds)

    def pages(self, number: int) -> bytes:
        each = self.outline.block_bytes // PAGE_BYTES
        return self.all_pages[number * each:(number + 1) * each]

    def own(self, number: int) -> bytes:
        """Which pages of a block no other process has."""
        return self.pages(number).translate(_OWN)

    def element_bytes(self, number: int) -> tuple[str, int]:
        """As the outline says of a kind. A child's blocks from its parent are all of one arena, so the parent knows which have caches of code."""
        what, size = self.outline.element_bytes(self.kinds[number])
        is_of_code = what == PAYLOADS and self.forker and number < len(self.forker) and self.forker.element_bytes(number) == (CODE, size)
        return CODE if is_of_code else what, size

    def in_use(self, number: int, content: bytes | None = None) -> bytes:
        """Which cells or pieces of a block are in use: 1 or 0 for each. `content` is that of the block, where it was read already."""
        what, size = self.element_bytes(number)
        if what == CELLS:
            return self.cells(number, size, self.outline.live)
        return self.used_pieces(number, size, self.block(number) if content is None else content)

    def block(self, number: int) -> bytearray:
        """The bytes of a block."""
        o = self.outline
        return self.process.read_held(o.start + number * o.block_bytes, o.block_bytes)

    def cell(self, address: int) -> bytes:
        """What the cell at an address holds; nothing where none begins that lives."""
        o, offset = self.outline, address - self.outline.start
        number = offset // o.block_bytes
        what, size = self.element_bytes(number) if 0 <= number < len(self) else (EMPTY, 0)
        if what != CELLS or offset % o.block_bytes % size or not self.states[offset // o.granule_bytes] & o.live:
            return b""
        return self.process.read_somewhere(address, size)

    def _field(self, at: int, number: int, size: int) -> int:
        at += number * self.outline.entry_bytes
        return int.from_bytes(self.entries[at:at + size], "little")

    def _states(self, number: int) -> bytes:
        each = self.outline.block_bytes // self.outline.granule_bytes
        return self.states[number * each:(number + 1) * each]

    def cells(self, number: int, width: int, bit: int) -> bytes:
        """Which cells of a block have a bit in the state of their first granule: 1 or 0 for each."""
        return bytes(_first_granules(width, self.outline)(self._states(number))).translate(some_of(bit))

    def used_pieces(self, number: int, size: int, content: bytes) -> bytearray:
        """Which pieces are in use, or kept by a thread's cache: all that were handed out before, and are neither in the block's list nor noted as free.

        A forked child notes what it frees of its parent's, a bit for each half of a granule, where the states of cells are.
        """
        start, count = self.outline.start + number * self.outline.block_bytes, self.outline.block_bytes // size
        handed_out = min(self._field(self.outline.untouched_field, number, 4), count)
        used = bytearray(b"\1" * handed_out + bytes(count - handed_out))
        states, half = self._states(number), self.outline.granule_bytes // 2
        if any(states):
            for i in range(handed_out):
                used[i] &= ~(states[i * size // (2 * half)] >> (i * size // half % 2)) & 1
        words, piece = memoryview(content).cast("Q"), self._field(self.outline.free_field, number, 8)
        for _ in range(count):
            at = piece - start
            if not 0 <= at < count * size or at % size:
                break  # the list ends, or was changed while it was read
            used[at // size] = 0
            piece = words[at // 8]
        return used


def read(process: Process, outline: Outline, forker: Heap | None) -> Heap:
    o = outline
    committed = [min(m.end, o.start + o.reserved_bytes) for m in process.mappings
                 if "r" in m.permissions and m.end > o.start and m.start < o.start + o.reserved_bytes]
    count = (max(committed, default=o.start) - o.start) // o.block_bytes
    return Heap(process, o, _table(process, o.kinds, count), _table(process, o.states, count * (o.block_bytes // o.granule_bytes)),
                _table(process, o.blocks, count * o.entry_bytes), process.pages(o.start, o.start + count * o.block_bytes), forker)


def _table(process: Process, start: int, size: int) -> bytes:
    """The first bytes of a table."""
    return bytes(process.read_held(start, -(-size // PAGE_BYTES) * PAGE_BYTES)[:size])


@cache
def _first_granules(width: int, outline: Outline) -> itemgetter:
    return itemgetter(*(cell * width // outline.granule_bytes for cell in range(outline.block_bytes // width)))


def bytes_of_pages(live: bytes, size: int, block_bytes: int, page_bytes: int = PAGE_BYTES) -> list[int]:
    """How many bytes of each page of a block are those of live cells of one size; `live` is 1 for each that lives."""
    def before(at: int) -> int:
        cell, part = divmod(at, size)
        return size * live.count(1, 0, cell) + (part * live[cell] if cell < len(live) else 0)

    return [after - first for first, after in pairwise(map(before, range(0, block_bytes + 1, page_bytes)))]
