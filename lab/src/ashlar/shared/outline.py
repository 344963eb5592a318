"""Where a process's heap is, and its tables: found in its memory, through the program headers of what is loaded.

The library, or the Ruby with Ashlar inside, has an ELF note that leads to an outline of its heap (docs/reference/shared-memory.md).
"""

import struct
from typing import NamedTuple

from ashlar.errors import BadInput
from ashlar.shared.process import PAGE_BYTES, Process

VERSION = 1
TABLE_NAMES = ("states of cells", "kinds of blocks", "descriptors of blocks")
_HEAP, _RUBY, _TYPE = b"Ashlar.heap\0", b"Ashlar.ruby\0", 1
_WIDTHS, _CLASSES = 24, 58
_FORM = struct.Struct(f"<II5Q14I{_WIDTHS}H{_CLASSES}H")
_LINEAGE = struct.Struct("<8I")  # behind the form
_RUBY_FORM = struct.Struct("<8I")
_PT_LOAD, _PT_NOTE = 1, 4
_NOTE_BYTES_MAX = 1 << 16
_RESERVED_BYTES_MAX = 1 << 42  # no heap reserves more; another user's process may show anything to root


class Ruby(NamedTuple):
    """What the note says of Ruby: the arena of caches of code; where a class has the one above it and its name; flags of a singleton class, and of a
    String whose bytes are elsewhere; where a String has its length, its pointer and its bytes."""

    code_arena: int
    above: int
    path: int
    singleton: int
    elsewhere: int
    length: int
    pointer: int
    embedded: int


class Outline(NamedTuple):
    """Addresses of a heap and its tables, and their layout, as the note's outline has them. Two fields are read of a block's descriptor, at these places.
    `lineage` is the address of the processes' numbers, 0 where the outline has none."""

    start: int
    reserved_bytes: int
    kinds: int
    states: int
    blocks: int
    block_bytes: int
    granule_bytes: int
    first_cells: int
    width_count: int
    first_payloads: int
    class_count: int
    arenas: int
    span: int
    span_rest: int
    live: int
    old: int
    entry_bytes: int
    free_field: int
    untouched_field: int
    widths: tuple[int, ...]
    classes: tuple[int, ...]
    ruby: Ruby | None = None
    lineage: int = 0

    def element_bytes(self, kind: int) -> tuple[str, int]:
        """What a block of this kind holds, `cells`, `payloads`, `caches of code`, `large` or `empty`, and how many bytes each has."""
        if 0 <= kind - self.first_cells < len(self.widths):
            return "cells", self.widths[kind - self.first_cells]
        if 0 <= kind - self.first_payloads < self.arenas * len(self.classes):
            arena, place = divmod(kind - self.first_payloads, len(self.classes))
            return "caches of code" if self.ruby and arena == self.ruby.code_arena else "payloads", self.classes[place]
        return ("large", 0) if kind in (self.span, self.span_rest) else ("empty", 0)

    @property
    def tables(self) -> dict[str, tuple[int, int]]:
        """The tables by name, from and to."""
        blocks = self.reserved_bytes // self.block_bytes
        sizes = (self.reserved_bytes // self.granule_bytes, blocks, blocks * self.entry_bytes)
        return {name: (start, start + size) for name, start, size in zip(TABLE_NAMES, (self.states, self.kinds, self.blocks), sizes)}


def find(process: Process) -> Outline:
    """Raises BadInput where there is none, and where it is of another version."""
    found, empty = None, False
    for mapping in process.mappings:
        if mapping.offset == 0 and mapping.path.startswith("/") and mapping.permissions[0] == "r":
            for address, ruby in noted(process.read, mapping.start):
                outline = parse(process.read(address, _FORM.size), f"process {process.pid}", ruby, address)
                found, empty = found or outline, empty or outline is None
    if found is None:
        why = "has a heap of Ashlar's that is not in use" if empty else "has no heap of Ashlar's, or an Ashlar too old to say where it is"
        raise BadInput(f"process {process.pid} ({process.name}) {why}; start its Ruby on this Ashlar")
    return found


def forkers(process: Process, outline: Outline) -> list[int] | None:
    """The numbers of the processes that this one was forked from, nearest first, as the processes themselves call each other. None where it does not
    say."""
    content = process.read(outline.lineage, _LINEAGE.size) if outline.lineage else b""
    own, *others = _LINEAGE.unpack(content) if len(content) == _LINEAGE.size else (0,)
    return [number for number in others if number] if own == process.own_number else None


def noted(read, start: int) -> list[tuple[int, Ruby | None]]:
    """The addresses that Ashlar's notes name in the ELF file that is loaded at `start`, and what another note says of its Ruby; `read(address, count)`
    reads memory."""
    header = read(start, 64)
    if len(header) < 64 or header[:6] != b"\x7fELF\x02\x01":
        return []
    table, = struct.unpack_from("<Q", header, 32)
    size, count = struct.unpack_from("<HH", header, 54)
    content = read(start + table, size * count) if size >= 56 else b""
    segments = [struct.unpack_from("<IIQQQQQQ", content, i * size) for i in range(len(content) // size if size else 0)]
    bias = next((start - address for kind, _, offset, address, *_ in segments if kind == _PT_LOAD and offset == 0), None)
    if bias is None:
        return []
    notes = []
    for kind, _, _, address, _, _, bytes_held, align in segments:
        if kind == _PT_NOTE and bytes_held <= _NOTE_BYTES_MAX:
            notes += _in_notes(bias + address, read(bias + address, bytes_held), 8 if align == 8 else 4)
    ruby = next((Ruby(*_RUBY_FORM.unpack(held)) for name, _, held in notes if name == _RUBY and len(held) == _RUBY_FORM.size), None)
    # The note of the heap holds how far behind that number the outline is.
    return [(at + int.from_bytes(held, "little", signed=True), ruby) for name, at, held in notes if name == _HEAP and len(held) == 8]


def _in_notes(start: int, content: bytes, align: int) -> list[tuple[bytes, int, bytes]]:
    """The names of the notes of our kind, and where and what they hold."""
    found, at = [], 0
    while at + 12 <= len(content):
        name_bytes, held, kind = struct.unpack_from("<III", content, at)
        inside = -(-(at + 12 + name_bytes) // align) * align
        if kind == _TYPE:
            found.append((content[at + 12:at + 12 + name_bytes], start + inside, content[inside:inside + held]))
        at = -(-(inside + held) // align) * align
    return found


def parse(content: bytes, source: str, ruby: Ruby | None = None, address: int = 0) -> Outline | None:
    """None of a heap that has not been reserved. `address` is where the outline is."""
    version, size = struct.unpack_from("<II", content) if len(content) >= 8 else (0, 0)
    if version != VERSION:
        raise BadInput(f"{source} has version {version} of the heap's outline, and this ashlar reads version {VERSION}; "
                       "use the ashlar that came with its library")
    if size < _FORM.size or len(content) < _FORM.size:
        raise BadInput(f"the heap's outline of {source} is damaged: it has {len(content)} bytes in place of {_FORM.size}; look at what runs there")
    fields = _FORM.unpack_from(content)[2:]
    lineage = address + _FORM.size if address and size >= _FORM.size + _LINEAGE.size else 0
    o = Outline(*fields[:-_WIDTHS - _CLASSES], fields[-_WIDTHS - _CLASSES:-_CLASSES], fields[-_CLASSES:], ruby, lineage)
    if (o.width_count, o.class_count) != (_WIDTHS, _CLASSES) or not o.block_bytes or not o.granule_bytes or not all(o.widths) or not all(o.classes):
        raise BadInput(f"the heap's outline of {source} is damaged: {o.width_count} widths and {o.class_count} classes; look at what runs there")
    if not o.start:
        return None
    if (o.block_bytes % PAGE_BYTES or o.reserved_bytes > _RESERVED_BYTES_MAX or not 0 < o.entry_bytes <= 4096
            or max(o.free_field, o.untouched_field) > o.entry_bytes - 8 or min(o.widths + o.classes) < 16):
        raise BadInput(f"the heap's outline of {source} is damaged: it has {o.reserved_bytes} bytes in blocks of {o.block_bytes}; look at what runs there")
    return o
