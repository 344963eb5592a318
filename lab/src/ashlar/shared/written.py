"""Which of a child's own pages were written, and what on them differs from the parent's: pages compared word by word.

A page is the child's own when no other process has it. What was written on it is what differs from the parent's page at the same address.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import compress

from ashlar.shared.classes import name_of
from ashlar.shared.heap import CELLS, CODE, EMPTY, LARGE, PAYLOADS, Heap
from ashlar.shared.kinds import FILES, JIT, LIBC, OTHER, STACKS, parts_elsewhere
from ashlar.shared.outline import TABLE_NAMES
from ashlar.shared.process import EXCLUSIVE, OF_FILE, PAGE_BYTES, PRESENT, runs, which

_WORDS = PAGE_BYTES // 8
_OWN_MEMORY = which(PRESENT | EXCLUSIVE | OF_FILE, PRESENT | EXCLUSIVE)

LIVE, DIED, REPLACED, REUSED, FREE = "cells that live", "cells that died since", "young or dead cells, replaced", "holes, reused", "free cells"
PIECE_LIVE, PIECE_FREED, PIECE_REUSED, PIECE_FREE = "payloads that live", "payloads freed since", "free payloads, reused", "free payloads"
LARGE_WRITTEN = "payloads over 32 KiB"
NEW_CELLS, NEW_PAYLOADS, NEW_CODE, NEW_LARGE = (f"blocks taken since: {kind}" for kind in ("cells", "payloads", CODE, "payloads over 32 KiB"))
EMPTIED, BOTH_EMPTY = "blocks emptied since", "blocks empty in both"
SAME, SAME_ELSEWHERE = "nothing differs: blocks", "nothing differs: elsewhere"
CAUSES = (LIVE, DIED, REPLACED, REUSED, FREE, PIECE_LIVE, PIECE_FREED, PIECE_REUSED, PIECE_FREE, CODE, LARGE_WRITTEN, NEW_CELLS, NEW_PAYLOADS,
          NEW_CODE, NEW_LARGE, EMPTIED, BOTH_EMPTY, *TABLE_NAMES, LIBC, JIT, STACKS, FILES, OTHER, SAME, SAME_ELSEWHERE)
_BIT = {cause: 1 << i for i, cause in enumerate(CAUSES)}

# Ruby's types, by the five lowest bits of a cell's first word.
_TYPES = {1: "objects", 2: "classes", 3: "modules", 4: "floats", 5: "strings", 6: "regular expressions", 7: "arrays", 8: "hashes", 9: "structs",
          10: "bignums", 11: "files", 12: "data of C", 13: "matches", 14: "complex numbers", 15: "rationals", 20: "symbols", 28: "included modules"}
_OF_MANY_CLASSES = ("objects", "structs", "data of C")
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
    """`types` counts live cells that were written, by Ruby's type; `classes` those of types that are of many classes, by the class's name."""

    pages: int = 0
    causes: dict[str, Cause] = field(default_factory=dict)
    types: dict[str, int] = field(default_factory=dict)
    classes: dict[str, int] = field(default_factory=dict)

    def add_cells(self, counts: dict[tuple[str, int], int], name: Callable[[int], str]) -> None:
        """Cells by type and class; `name` is that of the class at an address."""
        for (kind, klass), count in counts.items():
            self.types[kind] = self.types.get(kind, 0) + count
            if kind in _OF_MANY_CLASSES:
                called = name(klass)
                self.classes[called] = self.classes.get(called, 0) + count

    def add(self, masks: Iterable[int], parent_has: Iterable[bool]) -> None:
        """A bit mask of causes for each page, and whether the parent has such a page."""
        for (mask, has), pages in Counter(zip(masks, parent_has)).items():
            self.pages += pages
            for cause, bit in _BIT.items():
                if mask & bit:
                    found = self.causes.setdefault(cause, Cause())
                    found.pages += pages
                    found.alone += pages * (mask == bit)
                    found.new += pages * (not has)


def compare(parent: Heap, child: Heap) -> Written:
    """Both must be of one heap: the child is a fork of the parent, or of its fork."""
    found, cells = Written(), Counter()
    for number in range(len(child)):
        own = child.own(number)
        if 1 not in own:
            continue
        has = number < len(parent)
        masks, written = _block(parent, child, number, parent.element_bytes(number) if has else None)
        held = parent.pages(number) if has else bytes(len(own))
        found.add(compress(masks, own), (page & PRESENT != 0 for page in compress(held, own)))
        cells.update(written)
    found.add_cells(cells, lambda klass: name_of(child, klass))
    for kind, start, end in parts_elsewhere(child.process, child.outline):
        _compare_elsewhere(parent, child, kind, start, end, found)
    return found


def _compare_elsewhere(parent: Heap, child: Heap, kind: str, start: int, end: int, found: Written) -> None:
    """Of what is not in blocks only the kind is told, and whether a page differs at all."""
    for first, last in runs(child.process.pages(start, end).translate(_OWN_MEMORY)):
        at, size = start + first * PAGE_BYTES, (last - first) * PAGE_BYTES
        parent_has = (page & PRESENT != 0 for page in parent.process.pages(at, at + size))
        before, after = parent.process.read_held(at, size), child.process.read_held(at, size)
        found.add((_BIT[SAME_ELSEWHERE if before[p:p + PAGE_BYTES] == after[p:p + PAGE_BYTES] else kind] for p in range(0, size, PAGE_BYTES)), parent_has)


def _block(parent: Heap, child: Heap, number: int, was: tuple[str, int] | None) -> tuple[list[int], dict[tuple[str, int], int]]:
    """The causes of each page of a block, and the live cells that were written, by type and class."""
    what, size = child.element_bytes(number)
    own = child.own(number)
    if what == EMPTY:
        return [_BIT[BOTH_EMPTY if was and was[0] == EMPTY else EMPTIED]] * len(own), {}
    if (what, size) != was:
        return [_BIT[{CELLS: NEW_CELLS, PAYLOADS: NEW_PAYLOADS, CODE: NEW_CODE, LARGE: NEW_LARGE}[what]]] * len(own), {}
    before, after = parent.block(number), child.block(number)
    differs = differing(before, after, own)
    if what == LARGE:
        return masks(differs, len(own), lambda cell: _BIT[LARGE_WRITTEN], len(before), 1, 0), {}
    first, second = memoryview(before).cast("Q"), memoryview(after).cast("Q")
    count, free = len(before) // size, FREE if what == CELLS else PIECE_FREE
    lived, lives = parent.in_use(number, before), child.in_use(number, after)
    was_old, is_old = (heap.cells(number, size, heap.outline.old) if what == CELLS else () for heap in (parent, child))

    def cause(cell: int) -> str:
        if what == CODE:
            return CODE
        if what == PAYLOADS:
            return of_piece(lived[cell], lives[cell])
        return of_cell(lived[cell], lives[cell], was_old[cell] and is_old[cell] and is_same(first, second, cell * size // 8))

    causes = {cell: cause(cell) for cell in {word * 8 // size for word in differs} if cell < count}
    written = Counter(type_and_class(second, cell * size // 8) for cell, found in causes.items() if found == LIVE)
    return masks(differs, len(own), lambda cell: _BIT[causes[cell]], size, count, _BIT[free]), written


def differing(before: bytes, after: bytes, own: bytes) -> list[int]:
    """Words that differ, on pages that are the child's own: on others a later look would see what the parent does meanwhile."""
    found = []
    for page, is_own in enumerate(own):
        first, second = (content[page * PAGE_BYTES:(page + 1) * PAGE_BYTES] for content in (before, after))
        if is_own and first != second:
            words = zip(memoryview(first).cast("Q"), memoryview(second).cast("Q"))
            found += [page * _WORDS + i for i, (a, b) in enumerate(words) if a != b]
    return found


def is_same(before: Sequence[int], after: Sequence[int], word: int) -> bool:
    """Whether a cell that begins at this word may hold what it held: its type and its class are the same. Of an old cell that is nearly always so."""
    return before[word] & 0x1F == after[word] & 0x1F and before[word + 1] == after[word + 1]


def of_cell(lived: bool, lives: bool, same: bool) -> str:
    """What a difference in a cell means."""
    if lived and lives:
        return LIVE if same else REPLACED
    return DIED if lived else REUSED if lives else FREE


def of_piece(used_before: bool, used_now: bool) -> str:
    if used_before:
        return PIECE_LIVE if used_now else PIECE_FREED
    return PIECE_REUSED if used_now else PIECE_FREE


def masks(differs: Iterable[int], pages: int, bit_of: Callable[[int], int], size: int, count: int, rest: int) -> list[int]:
    """For each page the causes of what differs on it; `bit_of` a cell gives its cause, `rest` is that of what lies behind the last of `count` cells."""
    found = [0] * pages
    for word in differs:
        cell = word * 8 // size
        found[word // _WORDS] |= bit_of(cell) if cell < count else rest
    return [mask or _BIT[SAME] for mask in found]


def type_and_class(words: Sequence[int], at: int) -> tuple[str, int]:
    """Of the cell that begins at this word; the address of its class only where the type does not say as much."""
    kind = type_of(words[at])
    return kind, words[at + 1] if kind in _OF_MANY_CLASSES else 0


def type_of(first_word: int) -> str:
    """What Ruby calls the type of a cell that begins with this word."""
    number = first_word & 0x1F
    if number == _INTERNAL:
        return _INTERNAL_TYPES.get(first_word >> _INTERNAL_SHIFT & 15, "others of Ruby's own")
    return _TYPES.get(number, "others")
