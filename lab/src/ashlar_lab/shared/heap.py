"""One process's heap at one moment: what each block holds, which cells and pieces live, and which pages are the process's own."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from ashlar_lab.shared.outline import Outline
from ashlar_lab.shared.process import EXCLUSIVE, PAGE_BYTES, PRESENT, Process

CELLS, PAYLOADS, LARGE, EMPTY = "cells", "payloads", "large", "empty"


@dataclass(frozen=True)
class Heap:
    """Blocks by number. `pages` has an entry of pagemap for each page of each block, `states` the states of its granules."""

    process: Process
    outline: Outline
    kinds: np.ndarray
    states: np.ndarray
    entries: np.ndarray
    pages: np.ndarray

    @property
    def own(self) -> np.ndarray:
        """The pages that no other process has."""
        return self.pages & (PRESENT | EXCLUSIVE) == PRESENT | EXCLUSIVE

    @property
    def held(self) -> np.ndarray:
        return self.pages & PRESENT != 0

    def block(self, number: int) -> np.ndarray:
        """The bytes of a block."""
        o = self.outline
        return self.process.read_held(o.start + number * o.block_bytes, o.block_bytes)

    def _field(self, at: int, number: int, size: int) -> int:
        return int.from_bytes(self.entries[number, at:at + size].tobytes(), "little")

    def live_cells(self, numbers: np.ndarray, width: int) -> np.ndarray:
        """Which cells live of blocks of one width: a row for each block."""
        starts = np.arange(self.outline.block_bytes // width) * width // self.outline.granule_bytes
        return self.states[numbers][:, starts] & self.outline.live != 0

    def old_cells(self, number: int, width: int) -> np.ndarray:
        starts = np.arange(self.outline.block_bytes // width) * width // self.outline.granule_bytes
        return self.states[number, starts] & self.outline.old != 0

    def used_pieces(self, number: int, size: int, content: np.ndarray) -> np.ndarray:
        """Which pieces are in use, or kept by a thread's cache: all that were handed out before, and are neither in the block's list nor noted as free.

        A forked child notes what it frees of its parent's, a bit for each half of a granule, where the states of cells are.
        """
        start, count = self.outline.start + number * self.outline.block_bytes, self.outline.block_bytes // size
        used = np.arange(count) < self._field(self.outline.untouched_field, number, 4)
        starts, half = np.arange(count) * size, self.outline.granule_bytes // 2
        used &= self.states[number, starts // (2 * half)] >> (starts // half % 2) & 1 == 0
        words, piece = content.view(np.uint64), self._field(self.outline.free_field, number, 8)
        for _ in range(count):
            at = piece - start
            if not 0 <= at < count * size or at % size:
                break  # the list ends, or was changed while it was read
            used[at // size] = False
            piece = int(words[at // 8])
        return used


def read(process: Process, outline: Outline) -> Heap:
    o = outline
    committed = [min(m.end, o.start + o.reserved_bytes) for m in process.mappings
                 if "r" in m.permissions and m.end > o.start and m.start < o.start + o.reserved_bytes]
    count = (max(committed, default=o.start) - o.start) // o.block_bytes
    pages = process.pages(o.start, o.start + count * o.block_bytes).reshape(count, o.block_bytes // PAGE_BYTES)
    return Heap(process, o, _table(process, o.kinds, count, 1)[:, 0], _table(process, o.states, count, o.block_bytes // o.granule_bytes),
                _table(process, o.blocks, count, o.entry_bytes), pages)


def _table(process: Process, start: int, count: int, entry: int) -> np.ndarray:
    """The first entries of a table."""
    size = -(-count * entry // PAGE_BYTES) * PAGE_BYTES
    return process.read_held(start, size)[:count * entry].reshape(count, entry)


@cache
def overlap(size: int, block_bytes: int, page_bytes: int = PAGE_BYTES) -> np.ndarray:
    """How many bytes of each page of a block are each cell's, for cells of one size: a row for each cell."""
    first = np.arange(block_bytes // size)[:, None] * size
    page = np.arange(block_bytes // page_bytes)[None, :] * page_bytes
    return np.clip(np.minimum(first + size, page + page_bytes) - np.maximum(first, page), 0, None).astype(np.float64)
