"""Names of classes, out of the memory of a process that does not help. What it holds may be anything, so nothing that is found there is believed."""

from ashlar.shared.heap import Heap

NAMELESS, UNKNOWN, NONE = "a class without a name", "unknown class", "no class"
_CLASS, _STRING, _INCLUDED = 2, 5, 28  # Ruby's types
_STEPS_MAX, _NAME_BYTES_MAX, _LENGTH_MAX = 100, 200, 1 << 20


def name_of(heap: Heap, address: int) -> str:
    """The name of the class at an address: that of the one that programs see, where it is a singleton class or stands for a module."""
    ruby = heap.outline.ruby
    if not address:
        return NONE
    for _ in range(_STEPS_MAX if ruby else 0):
        cell = heap.cell(address)
        flags = _word(cell, 0)
        if flags & 0x1F != _INCLUDED and not (flags & 0x1F == _CLASS and flags & ruby.singleton):
            path = _word(cell, ruby.path)
            return UNKNOWN if flags & 0x1F != _CLASS else (_text(heap, path) or UNKNOWN) if path else NAMELESS
        address = _word(cell, ruby.above)
    return UNKNOWN


def _text(heap: Heap, address: int) -> str:
    """What a String holds, its first part if it is long; empty where there is none, or where it cannot be read."""
    ruby, cell = heap.outline.ruby, heap.cell(address)
    flags, length = _word(cell, 0), _word(cell, ruby.length)
    if flags & 0x1F != _STRING or length > _LENGTH_MAX:
        return ""
    count = min(length, _NAME_BYTES_MAX)
    found = heap.process.read_somewhere(_word(cell, ruby.pointer), count) if flags & ruby.elsewhere else cell[ruby.embedded:ruby.embedded + count]
    if len(found) < count or 0 in found:
        return ""  # a page that is not in memory reads as zero
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in found.decode(errors="replace")) + "…" * (length > count)


def _word(cell: bytes, at: int) -> int:
    return int.from_bytes(cell[at:at + 8], "little")
