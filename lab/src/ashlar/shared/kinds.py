"""How much memory of each kind a process has, and how much of that is its own: arithmetic over the entries of pagemap."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ashlar.shared.heap import CELLS, CODE, EMPTY, LARGE, Heap, bytes_of_pages
from ashlar.shared.outline import TABLE_NAMES, Outline
from ashlar.shared.process import EXCLUSIVE, OF_FILE, PAGE_BYTES, PRESENT, SWAPPED, Mapping, Process

FREE_CELLS, FREE_PIECES, EMPTY_BLOCKS, LARGE_PAYLOADS = "free memory in blocks of cells", "free memory in blocks of payloads", "empty blocks", "payloads over 32 KiB"
LIBC, JIT, STACKS, FILES, OTHER = "libc's heap", "JIT code", "stacks", "files", "other"
GROUPS = ("cells", "payloads", CODE, LARGE_PAYLOADS, FREE_CELLS, FREE_PIECES, EMPTY_BLOCKS, "tables", LIBC, JIT, STACKS, FILES, OTHER)
_ARENA_BYTES = 64 << 20  # glibc's arenas of threads begin at multiples of it
_AT_ONCE_BYTES = 1 << 30  # of a mapping of terabytes, which takes no memory, not all entries of pagemap at once


@dataclass(frozen=True)
class Amount:
    """Bytes that are in memory: mapped by other processes, too; the process's own and written; its own pages of files as they are on disk."""

    shared: float = 0
    dirty: float = 0
    clean: float = 0
    swapped: float = 0

    def __add__(self, other: "Amount") -> "Amount":
        return Amount(self.shared + other.shared, self.dirty + other.dirty, self.clean + other.clean, self.swapped + other.swapped)

    def __truediv__(self, count: int) -> "Amount":
        return Amount(self.shared / count, self.dirty / count, self.clean / count, self.swapped / count)

    @property
    def resident(self) -> float:
        return self.shared + self.dirty + self.clean


def group_of(kind: str) -> str:
    """Of `cells of 40 bytes` the cells, of a table the tables."""
    for group in ("cells", "payloads"):
        if kind.startswith(f"{group} of "):
            return group
    return "tables" if kind in TABLE_NAMES else kind


def by_group(amounts: dict[str, Amount]) -> dict[str, Amount]:
    found = dict.fromkeys(GROUPS, Amount())
    for kind, amount in amounts.items():
        found[group_of(kind)] += amount
    return found


def _place(entry: int) -> int:
    """Which field of `Amount` a page counts for, or one behind the last."""
    if entry & PRESENT:
        return 0 if not entry & EXCLUSIVE else 2 if entry & OF_FILE else 1
    return 3 if entry & SWAPPED else 4


_PLACES = bytes(map(_place, range(256)))


def weighed(pages: bytes, bytes_of_each: Iterable[int]) -> Amount:
    """What so many bytes of each page come to."""
    sums = [0] * 5
    for place, size in zip(pages.translate(_PLACES), bytes_of_each):
        sums[place] += size
    return Amount(*sums[:4])


def whole(pages: bytes) -> Amount:
    places = pages.translate(_PLACES)
    return Amount(*(PAGE_BYTES * places.count(place) for place in range(4)))


# ── Blocks ─────────────────────────────────────────────────────────────────

def of_heap(heap: Heap) -> dict[str, Amount]:
    """Memory of the region: of a page on which cells live and others are free, each has its bytes."""
    found: dict[str, Amount] = defaultdict(Amount)
    for number in range(len(heap)):
        pages = heap.pages(number)
        places = pages.translate(_PLACES)
        if places.count(4) == len(places):
            continue
        what, size = heap.element_bytes(number)
        if what in (LARGE, EMPTY):
            found[LARGE_PAYLOADS if what == LARGE else EMPTY_BLOCKS] += whole(pages)
            continue
        used = bytes_of_pages(heap.in_use(number), size, heap.outline.block_bytes)
        found[CODE if what == CODE else f"{what} of {size} bytes"] += weighed(pages, used)
        found[FREE_CELLS if what == CELLS else FREE_PIECES] += weighed(pages, (PAGE_BYTES - size for size in used))
    return found


# ── What is not in blocks ──────────────────────────────────────────────────

def sort_of(mapping: Mapping, before: Mapping | None, stack_pointers: list[int]) -> str:
    """What a mapping is for, by its name, its rights and its neighbour."""
    path, permissions = mapping.path, mapping.permissions
    signs = (
        (JIT, "rb_yjit" in path or "rb_jit" in path or "rjit" in path),
        (STACKS, path.startswith("[stack") or "stack" in path.lower() and path.startswith("[anon") or "fiber_pool" in path),
        (LIBC, path == "[heap]" or "malloc" in path and path.startswith("[anon")),
        (FILES, path.startswith("/")),
        (OTHER, path),
        (STACKS, any(mapping.start <= pointer < mapping.end for pointer in stack_pointers)),
        (JIT, "x" in permissions),
        (LIBC, mapping.start % _ARENA_BYTES == 0 and "w" in permissions),
        # What a file's data needs beyond the file is mapped right behind it.
        (FILES, before and before.end == mapping.start and before.path.startswith("/") and "w" in before.permissions),
    )
    return next((kind for kind, is_seen in signs if is_seen), OTHER)


def elsewhere(process: Process, outline: Outline) -> dict[str, Amount]:
    """Memory outside the region."""
    found: dict[str, Amount] = defaultdict(Amount)
    for kind, start, end in parts_elsewhere(process, outline):
        found[kind] += whole(process.pages(start, end))
    return found


def parts_elsewhere(process: Process, outline: Outline) -> Iterator[tuple[str, int, int]]:
    """Where memory outside the region lies: the tables, and mappings by what they are for, large ones in several parts."""
    tables = {"blocks": (outline.start, outline.start + outline.reserved_bytes), **outline.tables}
    before = None
    for mapping in process.mappings:
        if mapping.permissions[:3] != "---" and not mapping.path.startswith("[v"):
            usual = sort_of(mapping, before, process.stack_pointers)
            for name, start, end in _parts(mapping.start, mapping.end, tables):
                if name != "blocks":
                    yield from ((name or usual, at, min(at + _AT_ONCE_BYTES, end)) for at in range(start, end, _AT_ONCE_BYTES))
        before = mapping


def _parts(start: int, end: int, tables: dict[str, tuple[int, int]]) -> Iterator[tuple[str, int, int]]:
    """A mapping cut where tables begin and end in it; what is no table has no name. A table's last page is its own."""
    at = start
    for name, (first, last) in sorted(tables.items(), key=lambda item: item[1]):
        first, last = max(first, at), min(-(-last // PAGE_BYTES) * PAGE_BYTES, end)
        if first < last:
            if at < first:
                yield "", at, first
            yield name, first, last
            at = last
    if at < end:
        yield "", at, end
