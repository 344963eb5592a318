"""Which of a child's own pages were written, and what on them differs from the parent's: pages compared word by word.

A page is the child's own when no other process has it. What was written on it is what differs from the parent's page at the same address.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ashlar_lab.shared.heap import CELLS, EMPTY, LARGE, PAYLOADS, Heap
from ashlar_lab.shared.kinds import FILES, JIT, LIBC, OTHER, STACKS, parts_elsewhere
from ashlar_lab.shared.outline import TABLE_NAMES
from ashlar_lab.shared.process import EXCLUSIVE, OF_FILE, PAGE_BYTES, PRESENT, runs

_WORDS = PAGE_BYTES // 8

LIVE, DIED, REPLACED, REUSED, FREE = "cells that live", "cells that died since", "young or dead cells, replaced", "holes, reused", "free cells"
PIECE_LIVE, PIECE_FREED, PIECE_REUSED, PIECE_FREE = "payloads that live", "payloads freed since", "free payloads, reused", "free payloads"
LARGE_WRITTEN = "payloads over 32 KiB"
NEW_CELLS, NEW_PAYLOADS, NEW_LARGE = "blocks taken since: cells", "blocks taken since: payloads", "blocks taken since: payloads over 32 KiB"
EMPTIED, BOTH_EMPTY = "blocks emptied since", "blocks empty in both"
SAME, SAME_ELSEWHERE = "nothing differs: blocks", "nothing differs: elsewhere"
TABLES = tuple(TABLE_NAMES)
CAUSES = (LIVE, DIED, REPLACED, REUSED, FREE, PIECE_LIVE, PIECE_FREED, PIECE_REUSED, PIECE_FREE, LARGE_WRITTEN, NEW_CELLS, NEW_PAYLOADS, NEW_LARGE,
          EMPTIED, BOTH_EMPTY, *TABLES, LIBC, JIT, STACKS, FILES, OTHER, SAME, SAME_ELSEWHERE)
_BIT = {cause: 1 << i for i, cause in enumerate(CAUSES)}

# Ruby's types, by the five lowest bits of a cell's first word.
_TYPES = {1: "objects", 2: "classes", 3: "modules", 4: "floats", 5: "strings", 6: "regular expressions", 7: "arrays", 8: "hashes", 9: "structs",
          10: "bignums", 11: "files", 12: "data of C", 13: "matches", 14: "complex numbers", 15: "rationals", 20: "symbols", 28: "included modules"}
_INTERNAL, _INTERNAL_SHIFT = 26, 12
_INTERNAL_TYPES = {0: "environments of blocks", 1: "lexical scopes", 6: "methods", 7: "code", 11: "call information", 12: "call caches", 13: "constant caches"}


@dataclass
class Cause:
    """Pages on which something of the kind differs; those on which nothing else does; those that the parent has not."""

    pages: int = 0
    alone: int = 0
    new: int = 0


@dataclass
class Written:
    """`types` counts live cells that were written, by Ruby's type."""

    pages: int = 0
    causes: dict[str, Cause] = field(default_factory=dict)
    types: dict[str, int] = field(default_factory=dict)

    def add(self, masks: np.ndarray, parent_has: np.ndarray) -> None:
        """A bit mask of causes for each page, and whether the parent has such a page."""
        self.pages += len(masks)
        for cause, bit in _BIT.items():
            with_it = masks & bit != 0
            if with_it.any():
                found = self.causes.setdefault(cause, Cause())
                found.pages += int(with_it.sum())
                found.alone += int((masks == bit).sum())
                found.new += int((with_it & ~parent_has).sum())


def compare(parent: Heap, child: Heap) -> Written:
    """Both must be of one heap: the child is a fork of the parent, or of its fork."""
    found = Written()
    own = child.own
    for number in np.flatnonzero(own.any(axis=1)).tolist():
        has = number < len(parent.kinds)
        mask, types = _block(parent, child, number, parent.outline.element_bytes(int(parent.kinds[number]) if has else 0))
        parent_held = parent.held[number] if has else np.zeros(own.shape[1], bool)
        found.add(mask[own[number]], parent_held[own[number]])
        for name, count in types.items():
            found.types[name] = found.types.get(name, 0) + count
    for kind, start, end in parts_elsewhere(child.process, child.outline):
        _compare_elsewhere(parent, child, kind, start, end, found)
    return found


def _compare_elsewhere(parent: Heap, child: Heap, kind: str, start: int, end: int, found: Written) -> None:
    """Of what is not in blocks only the kind is told, and whether a page differs at all."""
    pages = child.process.pages(start, end)
    own = pages & (PRESENT | EXCLUSIVE | OF_FILE) == PRESENT | EXCLUSIVE
    for first, last in runs(own):
        at, size = start + first * PAGE_BYTES, (last - first) * PAGE_BYTES
        parent_has = parent.process.pages(at, at + size) & PRESENT != 0
        before, after = (of.process.read_held(at, size).reshape(-1, PAGE_BYTES) for of in (parent, child))
        found.add(np.where((before != after).any(axis=1), _BIT[kind], _BIT[SAME_ELSEWHERE]), parent_has)


def _block(parent: Heap, child: Heap, number: int, was: tuple[str, int]) -> tuple[np.ndarray, dict[str, int]]:
    """The causes of each page of a block."""
    what, size = child.outline.element_bytes(int(child.kinds[number]))
    pages = child.pages.shape[1]
    if what == EMPTY:
        return np.full(pages, _BIT[BOTH_EMPTY if was[0] == EMPTY else EMPTIED]), {}
    if (what, size) != was:
        return np.full(pages, _BIT[{CELLS: NEW_CELLS, PAYLOADS: NEW_PAYLOADS, LARGE: NEW_LARGE}[what]]), {}
    before, after = parent.block(number), child.block(number)
    differs = differing(before, after, child.own[number])
    if what == LARGE:
        return np.where(differs.reshape(pages, -1).any(axis=1), _BIT[LARGE_WRITTEN], _BIT[SAME]), {}
    if what == CELLS:
        ones = np.array([number])
        lived, lives = parent.live_cells(ones, size)[0], child.live_cells(ones, size)[0]
        old = parent.old_cells(number, size) & child.old_cells(number, size)
        codes = of_cells(lived, lives, is_same(before, after, size) & old)
        free, types = _BIT[FREE], _types(codes, differs, after, size)
    else:
        codes = of_pieces(parent.used_pieces(number, size, before), child.used_pieces(number, size, after))
        free, types = _BIT[PIECE_FREE], {}
    return masks(differs, codes, size, free), types


def differing(before: np.ndarray, after: np.ndarray, own: np.ndarray) -> np.ndarray:
    """Words that differ, on pages that are the child's own: on others a later look would see what the parent does meanwhile."""
    return (before.view(np.uint64) != after.view(np.uint64)) & np.repeat(own, _WORDS)


def is_same(before: np.ndarray, after: np.ndarray, size: int) -> np.ndarray:
    """Which cells may hold what they held: their type and their class are the same. Of old cells that is nearly always so."""
    count, words = len(before) // size, size // 8
    first, second = (content[:count * size].view(np.uint64).reshape(count, words) for content in (before, after))
    return (first[:, 0] & np.uint64(0x1F) == second[:, 0] & np.uint64(0x1F)) & (first[:, 1] == second[:, 1])


def of_cells(lived: np.ndarray, lives: np.ndarray, same: np.ndarray) -> np.ndarray:
    """What a difference in a cell means, a bit for each cell."""
    return np.select([lived & lives & same, lived & lives, lived, lives], [_BIT[LIVE], _BIT[REPLACED], _BIT[DIED], _BIT[REUSED]], _BIT[FREE])


def of_pieces(used_before: np.ndarray, used_now: np.ndarray) -> np.ndarray:
    return np.select([used_before & used_now, used_before, used_now], [_BIT[PIECE_LIVE], _BIT[PIECE_FREED], _BIT[PIECE_REUSED]], _BIT[PIECE_FREE])


def masks(differs: np.ndarray, codes: np.ndarray, size: int, rest: int) -> np.ndarray:
    """For each page the causes of what differs on it; `rest` is that of what lies behind the last cell."""
    words = np.flatnonzero(differs)
    cell = words * 8 // size
    found = np.zeros(len(differs) // _WORDS, np.int64)
    np.bitwise_or.at(found, words // _WORDS, np.append(codes, rest)[np.minimum(cell, len(codes))])
    found[found == 0] = _BIT[SAME]
    return found


def _types(codes: np.ndarray, differs: np.ndarray, content: np.ndarray, size: int) -> dict[str, int]:
    """Live cells in which something differs, by type."""
    cells = np.unique(np.flatnonzero(differs) * 8 // size)
    cells = cells[cells < len(codes)]
    cells = cells[codes[cells] == _BIT[LIVE]]
    names, counts = np.unique([type_of(int(word)) for word in content.view(np.uint64)[cells * size // 8]], return_counts=True)
    return dict(zip(names.tolist(), counts.tolist()))


def type_of(first_word: int) -> str:
    """What Ruby calls the type of a cell that begins with this word."""
    number = first_word & 0x1F
    if number == _INTERNAL:
        return _INTERNAL_TYPES.get(first_word >> _INTERNAL_SHIFT & 15, "others of Ruby's own")
    return _TYPES.get(number, "others")
