"""`ashlar shared`: its arithmetic, how a heap is found, and the whole way with Ruby programs that fork and write what is known."""

import ctypes
import json
import os
import re
import signal
import struct
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from ashlar.errors import BadInput
from ashlar.shared import classes, heap, kinds, outline, page, process, written
from ashlar.shared.kinds import Amount
from ashlar.shared.process import EXCLUSIVE, OF_FILE, PAGE_BYTES, PRESENT, SWAPPED, Mapping

BLOCK = 65536
WORDS = PAGE_BYTES // 8


# ── Arithmetic ─────────────────────────────────────────────────────────────

@pytest.mark.parametrize("size", [32, 40, 96, 448, 1024, 21840, 32768])
def test_each_cell_has_all_its_bytes_and_no_page_has_more_than_it_holds(size):
    count = BLOCK // size
    for cell in range(count):
        assert sum(heap.bytes_of_pages(bytes(cell) + b"\1" + bytes(count - cell - 1), size, BLOCK)) == size
    all_of_them = heap.bytes_of_pages(b"\1" * count, size, BLOCK)
    assert sum(all_of_them) == BLOCK // size * size and max(all_of_them) <= PAGE_BYTES


def test_a_cell_across_two_pages_is_a_part_of_both():
    shares = heap.bytes_of_pages(bytes(102) + b"\1" + bytes(BLOCK // 40 - 103), 40, BLOCK, 4096)
    assert shares[:3] == [16, 24, 0]  # from 4080 to 4120


def test_every_byte_of_a_page_is_shared_or_own_or_swapped_out():
    pages = bytes([0, PRESENT, PRESENT | EXCLUSIVE, PRESENT | OF_FILE, PRESENT | EXCLUSIVE | OF_FILE, SWAPPED])
    assert kinds.whole(pages) == Amount(2 * PAGE_BYTES, PAGE_BYTES, PAGE_BYTES, PAGE_BYTES)
    assert kinds.weighed(pages, [1, 2, 3, 4, 5, 6]) == Amount(2 + 4, 3, 5, 6)


def test_kinds_add_up_to_their_groups():
    found = kinds.by_group({"cells of 40 bytes": Amount(1, 2), "cells of 48 bytes": Amount(3, 4), "payloads of 48 bytes": Amount(5, 6), "states of cells": Amount(0, 7),
                            kinds.OTHER: Amount(8)})
    assert (found["cells"], found["payloads"], found["tables"], found["other"]) == (Amount(4, 6), Amount(5, 6), Amount(0, 7), Amount(8))
    assert sum(found.values(), Amount()) == Amount(17, 19)


def test_a_difference_means_what_became_of_its_cell():
    lived, lives = (1, 1, 1, 0, 0), (1, 1, 0, 1, 0)
    causes = [written.of_cell(*cell) for cell in zip(lived, lives, (1, 0, 1, 1, 1))]
    assert causes == [written.LIVE, written.REPLACED, written.DIED, written.REUSED, written.FREE]
    assert [written.of_piece(*piece) for piece in zip(lived, lives)] == [written.PIECE_LIVE] * 2 + [written.PIECE_FREED, written.PIECE_REUSED, written.PIECE_FREE]


def test_a_page_has_the_causes_of_all_that_differs_on_it():
    differs = [0, WORDS, BLOCK // 8 - 1]  # the first cell, the second page's part of the cell that lies on both, and behind the last cell
    bits = {0: 1, 102: 2}
    found = written.masks(differs, BLOCK // PAGE_BYTES, bits.__getitem__, 40, BLOCK // 40, 8)
    assert found == [1, 2] + [1 << written.CAUSES.index(written.SAME)] * (BLOCK // PAGE_BYTES - 3) + [8]


def test_only_pages_of_its_own_are_compared():
    before, after = bytes(2 * PAGE_BYTES), b"\1" * 2 * PAGE_BYTES
    assert written.differing(before, after, b"\0\1") == list(range(WORDS, 2 * WORDS))


def test_causes_are_counted_with_others_alone_and_where_the_parent_has_no_page():
    found = written.Written()
    found.add([1, 3, 2], [True, False, True])
    assert found.pages == 3
    assert [(c.pages, c.alone, c.new) for c in (found.causes[written.CAUSES[i]] for i in (0, 1))] == [(2, 1, 1), (2, 1, 1)]


def test_a_cell_of_another_class_or_type_is_not_the_same():
    before, after = [0] * 512, [0] * 512
    for at, word in ((0, 5), (1, 100), (5, 5), (6, 100), (10, 5), (11, 100)):
        before[at] = after[at] = word
    after[0], after[6], after[10] = 7, 200, 5 | 1 << 13
    assert [written.is_same(before, after, 5 * cell) for cell in range(4)] == [False, False, True, True]


def test_types_are_ruby_s():
    assert [written.type_of(word) for word in (5, 1, 26 | 7 << 12, 26 | 13 << 12, 26 | 2 << 12, 31)] == \
        ["strings", "objects", "code", "constant caches", "others of Ruby's own", "others"]


def test_classes_are_counted_by_name_where_a_type_is_of_many():
    words = [1, 100, 5, 200, 9, 300, 12, 0]
    assert [written.type_and_class(words, at) for at in (0, 2, 4, 6)] == [("objects", 100), ("strings", 0), ("structs", 300), ("data of C", 0)]
    found = written.Written()
    found.add_cells({("objects", 100): 2, ("objects", 101): 3, ("strings", 0): 4, ("structs", 300): 5}, {100: "A", 101: "A", 300: "B"}.__getitem__)
    assert (found.types, found.classes) == ({"objects": 5, "strings": 4, "structs": 5}, {"A": 5, "B": 5})


def test_every_kind_has_a_colour_of_its_own():
    for colours in (page._LIGHT, page._DARK):
        assert len(set(colours)) == len(colours) == len(kinds.GROUPS)


def test_runs_are_where_true_entries_follow_each_other():
    assert list(process.runs(b"\1\1\0\1")) == [(0, 2), (3, 4)] and list(process.runs(bytes(3))) == []


@pytest.mark.parametrize(("line", "kind"), [
    ("7f0000000000-7f0000021000 rw-p 00000000 00:00 0 ", kinds.LIBC),
    ("55d000000000-55d000021000 rw-p 00000000 00:00 0                          [heap]", kinds.LIBC),
    ("7ffc00001000-7ffc00022000 rw-p 00000000 00:00 0                          [stack]", kinds.STACKS),
    ("7f1000801000-7f1001001000 rw-p 00000000 00:00 0 ", kinds.STACKS),
    ("7f1000001000-7f1000101000 r-xp 00000000 00:00 0 ", kinds.JIT),
    ("7f1000001000-7f1000101000 r-xp 00000000 00:00 0                          [anon:Ruby:rb_yjit_reserve_addr_space]", kinds.JIT),
    ("7f1000001000-7f1000101000 rw-p 00001000 fe:00 1234                       /usr/lib/a library.so", kinds.FILES),
    ("7f1000001000-7f1000101000 rw-p 00000000 00:00 0 ", kinds.OTHER),
])
def test_a_mapping_is_known_by_its_name_its_rights_and_its_place(line, kind):
    assert kinds.sort_of(process.mapping(line), None, [0x7F1000900000]) == kind


def test_a_file_that_is_mapped_may_have_any_name():
    names = ["/tmp/\udcff.so", "/tmp/a\x0bb", "/tmp/a\rb", "/tmp/a\u2028b", "/tmp/a\x85 b  c"]
    content = "".join(f"7f1000001000-7f1000101000 r--p 00001000 fe:00 1234                       {name}\n" for name in names)
    assert process.mappings(content.encode(errors="surrogateescape")) == [Mapping(0x7f1000001000, 0x7f1000101000, "r--p", 0x1000, name) for name in names]
    assert process.mappings(b"") == []


def test_a_process_that_has_ended_meanwhile_is_told_of_in_one_line():
    sleeping = subprocess.Popen(["sleep", "60"])
    found = process.Process(sleeping.pid)
    sleeping.kill()
    sleeping.wait()
    for read in (lambda: found.stack_pointers, lambda: found.mappings):
        with pytest.raises(BadInput, match=f"there is no process {sleeping.pid}"):
            read()


def test_a_file_s_data_goes_on_behind_it():
    before = Mapping(0x1000, 0x2000, "rw-p", 0x5000, "/usr/bin/ruby")
    assert kinds.sort_of(Mapping(0x2000, 0x3000, "rw-p", 0, ""), before, []) == kinds.FILES


def test_tables_are_cut_out_of_the_mapping_that_they_lie_in():
    tables = {"b": (0x5000, 0x6800), "a": (0x2000, 0x3000)}
    assert list(kinds._parts(0x1000, 0x9000, tables)) == [("", 0x1000, 0x2000), ("a", 0x2000, 0x3000), ("", 0x3000, 0x5000), ("b", 0x5000, 0x7000), ("", 0x7000, 0x9000)]


# ── Finding the heap ───────────────────────────────────────────────────────

def outline_bytes(version=outline.VERSION, start=0x7F0000000000, widths=24, reserved=1 << 30):
    layout = [BLOCK, 32, 1, widths, 64, 58, 3, 254, 255, 1, 4, 64, 8, 20]
    return outline._FORM.pack(version, outline._FORM.size, start, reserved, 1, 2, 3, *layout, *range(32, 56), *range(16, 74))


RUBY = outline.Ruby(code_arena=1, above=16, path=24, singleton=1 << 13, elsewhere=1 << 13, length=16, pointer=24, embedded=24)


def elf(note_align=4, name=b"Ashlar.heap\0", more=b""):
    """What is loaded of a file with another's note, one that leads 0x200 bytes on, and more."""
    others = struct.pack("<III", 4, 20, 3) + b"GNU\0" + bytes(20)
    if note_align == 8:
        others += bytes(-len(others) % 8)
    notes = others + struct.pack("<III", len(name), 8, 1) + name + struct.pack("<q", 0x200) + more
    segments = struct.pack("<IIQQQQQQ", 1, 4, 0, 0x400000, 0, 0x1000, 0x1000, 0x1000) + struct.pack("<IIQQQQQQ", 4, 4, 0x100, 0x400100, 0, len(notes), len(notes), note_align)
    header = b"\x7fELF\x02\x01\x01".ljust(32, b"\0") + struct.pack("<QQIHHHHHH", 64, 0, 0, 64, 56, 2, 0, 0, 0)
    return (header + segments).ljust(0x100, b"\0") + notes, 0x100 + len(others) + 24 + 0x200


@pytest.mark.parametrize("align", [4, 8])
def test_a_note_is_found_through_the_program_headers_wherever_the_file_is_loaded(align):
    content, place = elf(align)
    start = 0x7F1234500000
    assert outline.noted(lambda address, count: content[address - start:address - start + count], start) == [(start + place, None)]


@pytest.mark.parametrize(("held", "told"), [(struct.pack("<8I", *RUBY), RUBY), (bytes(28), None), (bytes(64), None), (b"", None)])
@pytest.mark.parametrize("align", [4, 8])
def test_another_note_tells_of_ruby_s_classes(align, held, told):
    content, place = elf(align, more=struct.pack("<III", 12, len(held), 1) + b"Ashlar.ruby\0" + held)
    assert outline.noted(lambda address, count: content[address:address + count], 0) == [(place, told)]


@pytest.mark.parametrize("content", [b"", b"\x7fELF\x01\x01".ljust(64, b"\0"), b"#!/bin/sh".ljust(64), elf()[0][:200], elf(name=b"Another.one\0")[0]])
def test_a_file_without_the_note_has_none(content):
    assert outline.noted(lambda address, count: content[address:address + count], 0) == []


def test_an_outline_says_what_a_block_holds():
    found = outline.parse(outline_bytes(), "x")
    assert [found.element_bytes(kind) for kind in (0, 1, 24, 25, 64, 64 + 58, 64 + 3 * 58, 254, 255)] == [
        ("empty", 0), ("cells", 32), ("cells", 55), ("empty", 0), ("payloads", 16), ("payloads", 16), ("empty", 0), ("large", 0), ("large", 0)]
    of_ruby = outline.parse(outline_bytes(), "x", RUBY)
    assert [of_ruby.element_bytes(64 + arena * 58 + 1) for arena in range(4)] == [("payloads", 17), ("caches of code", 17), ("payloads", 17), ("empty", 0)]
    assert found.tables["states of cells"] == (2, 2 + (1 << 25)) and outline.parse(outline_bytes(start=0), "x") is None


@pytest.mark.parametrize(("content", "complaint"), [
    (outline_bytes(version=2), "x has version 2 of the heap's outline, and this ashlar reads version 1; use the ashlar that came with its library"),
    (outline_bytes()[:100], "the heap's outline of x is damaged: it has 100 bytes"),
    (outline_bytes(widths=25), "the heap's outline of x is damaged: 25 widths"),
    (outline_bytes(reserved=1 << 50), "the heap's outline of x is damaged: it has 1125899906842624 bytes"),
    (b"", "has version 0"),
])
def test_another_outline_is_refused(content, complaint):
    with pytest.raises(BadInput, match=re.escape(complaint)):
        outline.parse(content, "x")


def block_of_pieces(size, links, free, untouched, states={}):
    """A heap of one block, whose piece `i` holds the address of piece `links[i]`, or a word of its own."""
    found = outline.parse(outline_bytes(), "x")
    content = bytearray(BLOCK)
    for piece, word in links.items():
        struct.pack_into("<Q", content, piece * size, word)
    entries = bytearray(64)
    struct.pack_into("<Q", entries, 8, free)
    struct.pack_into("<I", entries, 20, untouched)
    told = bytearray(BLOCK // found.granule_bytes)
    for granule, state in states.items():
        told[granule] = state
    return heap.Heap(None, found, bytes(1), bytes(told), bytes(entries), bytes(BLOCK // PAGE_BYTES)), content


def numbers(used):
    return [i for i, is_used in enumerate(used) if is_used]


@pytest.mark.parametrize(("links", "free", "untouched", "used"), [
    ({}, None, 4, [0, 1, 2, 3]),                      # none is free of four that were handed out
    ({2: 1, 1: None}, 2, 4, [0, 3]),                  # a list of two
    ({2: 1, 1: 2}, 2, 4, [0, 3]),                     # one that was changed while it was read, and has no end
    ({2: "elsewhere"}, 2, 4, [0, 1, 3]),              # and one that leads out of the block
])
def test_pieces_in_the_list_and_those_never_handed_out_are_free(links, free, untouched, used):
    start = 0x7F0000000000
    words = {piece: 0 if to is None else 77 if to == "elsewhere" else start + to * 48 for piece, to in links.items()}
    made, content = block_of_pieces(48, words, 0 if free is None else start + free * 48, untouched)
    assert numbers(made.used_pieces(0, 48, content)) == used


def test_pieces_that_a_child_noted_are_free():
    made, content = block_of_pieces(48, {}, 0, 5, states={48 // 32: 2, 96 // 32: 1})  # 2 is the second half of a granule
    assert numbers(made.used_pieces(0, 48, content)) == [0, 3, 4]


def test_a_child_s_blocks_hold_caches_of_code_where_its_parent_s_do():
    def made(kinds, forker=None):
        return heap.Heap(None, outline.parse(outline_bytes(), "x", RUBY), bytes(kinds), b"", b"", b"", forker)

    def kind(arena, place=0):
        return 64 + arena * 58 + place
    parent = made([kind(1), kind(1), kind(1), kind(0), kind(1), 1])
    child = made([kind(2), kind(0), kind(2, 1), kind(2), 1, kind(2), kind(2), kind(1)], parent)
    assert [child.element_bytes(number)[0] for number in range(8)] == ["caches of code"] * 2 + ["payloads"] * 2 + ["cells"] + ["payloads"] * 2 + ["caches of code"]
    assert made([kind(2), kind(2)], child).element_bytes(1) == ("caches of code", 16)


# ── Names of classes ───────────────────────────────────────────────────────

START, WIDTH = 0x7F0000000000, 48


def at(cell):
    return START + cell * WIDTH


def heap_of_cells(cells, elsewhere=b"", ruby=RUBY):
    """A heap of one block of cells with these words, of which the first hundred live. At address 0x1000 lie other bytes."""
    content, states = bytearray(BLOCK), bytearray(BLOCK // 32)
    for cell, words in cells.items():
        struct.pack_into(f"<{len(words)}Q", content, cell * WIDTH, *words)
        states[cell * WIDTH // 32] = cell < 100

    def read(start, count):
        return elsewhere[start - 0x1000:][:count] if start < 0x2000 else bytes(content[start - START:][:count]) if START <= start < START + BLOCK else b""
    return heap.Heap(SimpleNamespace(read_somewhere=read), outline.parse(outline_bytes(), "x", ruby), bytes([1 + WIDTH - 32]), bytes(states), b"", b"")


def text(content):
    return [int.from_bytes(content[i:i + 8], "little") for i in range(0, len(content), 8)]


CLASS, STRING, INCLUDED, FLAG = 2, 5, 28, 1 << 13
NAMED = {0: (CLASS, 0, 0, at(1)), 1: (STRING, 0, 7, *text(b"Account"))}


@pytest.mark.parametrize(("cells", "elsewhere", "name"), [
    (NAMED, b"", "Account"),
    ({**NAMED, 9: (CLASS | FLAG, 0, at(8), at(2)), 8: (INCLUDED, 0, at(7), 0), 7: (INCLUDED, 0, at(0), 0)}, b"", "Account"),
    ({0: (CLASS, 0, 0, 0)}, b"", classes.NAMELESS),
    ({0: (CLASS, 0, 0, at(1)), 1: (STRING | FLAG, 0, 200, 0x1000)}, b"N" * 300, "N" * 200),
    ({0: (CLASS, 0, 0, at(1)), 1: (STRING | FLAG, 0, 201, 0x1000)}, b"N" * 300, "N" * 200 + "…"),
    ({0: (CLASS, 0, 0, at(1)), 1: (STRING, 0, 7, *text(b"a\x07\xffb\xc3\xa9\n"))}, b"", "a\ufffd\ufffdbé\ufffd"),
])
def test_a_class_is_named_as_programs_see_it(cells, elsewhere, name):
    assert classes.name_of(heap_of_cells(cells, elsewhere), at(max(c for c in cells if c != 1))) == name


@pytest.mark.parametrize("cells", [
    {},                                                                   # a cell that does not live
    {0: (STRING, 0, 7, *text(b"Account"))},                               # no class
    {0: (CLASS, 0, 0, at(2))},                                            # a name that does not live
    {0: (CLASS, 0, 0, at(1)), 1: (CLASS, 0, 7, *text(b"Account"))},       # a name that is no String
    {0: (CLASS, 0, 0, (1 << 64) - 1)},                                    # and one that is nowhere
    {0: (INCLUDED, 0, at(0), 0)},                                         # above itself
    {0: (CLASS | FLAG, 0, at(1), 0), 1: (INCLUDED, 0, at(0), 0)},         # in a circle
    {0: (CLASS | FLAG, 0, 77, 0)},                                        # above which is nothing
    {0: NAMED[0], 1: (STRING, 0, 25, *text(b"A" * 24))},                  # longer than its cell
    {0: NAMED[0], 1: (STRING, 0, 1 << 62, *text(b"A" * 24))},
    {0: NAMED[0], 1: (STRING | FLAG, 0, 1 << 62, 0x1000)},
    {0: NAMED[0], 1: (STRING | FLAG, 0, (1 << 64) - 1, 0x1000)},
    {0: NAMED[0], 1: (STRING | FLAG, 0, 100, 0x1000 + 201)},              # not all there
    {0: NAMED[0], 1: (STRING | FLAG, 0, 7, (1 << 64) - 1)},
    {0: NAMED[0], 1: (STRING, 0, 7, 0)},                                  # on a page that is not in memory
    {0: NAMED[0], 1: (STRING, 0, 0, 0)},
])
def test_a_class_whose_name_cannot_be_read_is_unknown(cells):
    assert classes.name_of(heap_of_cells(cells, b"N" * 300), at(0)) == classes.UNKNOWN


@pytest.mark.parametrize("address", [1, at(0) + 8, at(100), at(0) - WIDTH, START + BLOCK, START + BLOCK - 16, (1 << 64) - 1])
def test_what_is_no_cell_is_an_unknown_class(address):
    looks_like_one = (CLASS, CLASS, 0, at(1), at(1))  # from its second word on as well
    assert classes.name_of(heap_of_cells({0: looks_like_one, 1: NAMED[1], 100: looks_like_one}), address) == classes.UNKNOWN


def test_a_cell_without_a_class_is_told_and_without_the_note_all_are_unknown():
    assert classes.name_of(heap_of_cells(NAMED), 0) == classes.NONE
    assert classes.name_of(heap_of_cells(NAMED, ruby=None), at(0)) == classes.UNKNOWN


def test_only_what_lies_in_a_mapping_is_read():
    held = ctypes.create_string_buffer(b"held", 3 * PAGE_BYTES)
    start = ctypes.addressof(held)
    found = process.Process(os.getpid())
    assert found.read_somewhere(start, 4) == b"held"
    held[2 * PAGE_BYTES - start % PAGE_BYTES - 2:2 * PAGE_BYTES - start % PAGE_BYTES + 2] = b"both"
    assert found.read_somewhere(start + 2 * PAGE_BYTES - start % PAGE_BYTES - 2, 4) == b"both"
    last = next(m.end for m in found.mappings if m.start <= start < m.end)
    for address in (0, 8, last - 2, (1 << 63) - 1, 0xFFFFFFFFFF600000, (1 << 64) - 1, 1 << 70):
        assert found.read_somewhere(address, 1 << 30 if address == last - 2 else 4) == b""
    found.mappings.append(Mapping(0xFFFFFFFFFF600000, 0xFFFFFFFFFF601000, "r-xp", 0, "[vsyscall]"))
    assert found.read_somewhere(0xFFFFFFFFFF600000, 4) == b""
    found.close()


# ── The whole way ──────────────────────────────────────────────────────────

# Children of one parent, each of which writes one thing that is known.
PROGRAM = """\
Entry = Struct.new(:number)
ENTRIES = Array.new(60_000) { |i| Entry.new(i) }
DROPPED = Array.new(30_000) { |i| [i, i, i] }
HOLES = Array.new(40_000) { |i| { i => i } }
TEXTS = Array.new(4_000) { |i| "text #{i} " * 200 }
FREED = Array.new(4_000) { |i| "freed #{i} " * 200 }
LARGE = "large " * 100_000
4.times { GC.start }
HOLES.reject!.with_index { |_, i| i.odd? }
4.times { GC.start }
GC.disable
tasks = {
  idle: -> {},
  live: -> { ENTRIES.each { |entry| entry.number += 1 } },
  died: -> { DROPPED.reject!.with_index { |_, i| i.odd? }; GC.enable; 4.times { GC.start } },
  holes: -> { HOLES.concat(Array.new(15_000) { |i| { i => -i } }) },
  texts: -> { TEXTS.each { |text| text.setbyte(300, 33) } },
  freed: -> { FREED.each_slice(2) { |one, _| one.clear } },
  large: -> { (0...LARGE.bytesize).step(4096) { |at| LARGE.setbyte(at, 33) } },
}
started = tasks.map do |name, task|
  theirs, mine = IO.pipe
  pid = fork { theirs.close; task.call; mine.puts "done"; mine.flush; sleep }
  mine.close
  abort "#{name} failed" unless theirs.gets == "done\\n"
  [name, pid]
end
puts started.map { |name, pid| "#{name}=#{pid}" }.join(" ")
$stdout.flush
$stdin.read
started.each { |_, pid| Process.kill(:KILL, pid) }
"""


@pytest.fixture
def start(tmp_path, request):
    """Starts a program, on the library unless another Ruby is named, and reads the line that it prints when it is ready; ends it and its children
    afterwards."""
    scope = Path("/proc/sys/kernel/yama/ptrace_scope")
    if os.geteuid() != 0 and scope.exists() and scope.read_text().strip() != "0":
        pytest.skip("this system lets only root read the memory of processes that are not its children")
    started = []

    def begin(source, *arguments, on=None, **environment):
        program, library = (on, "") if on else request.getfixturevalue("ruby")
        (tmp_path / "app.rb").write_text(source)
        made = subprocess.Popen([program, "--disable-gems", "app.rb", *arguments], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                start_new_session=True, env={**os.environ, **({"RUBY_GC_LIBRARY": library} if library else {}), **environment})
        started.append(made)
        return made, made.stdout.readline().strip()
    yield begin
    for made in started:
        os.killpg(made.pid, signal.SIGKILL)
        made.wait(30)


def test_what_each_child_wrote_appears_under_the_right_kind(ashlar, start):
    program, said = start(PROGRAM)
    children = {name: int(pid) for name, pid in (word.split("=") for word in said.split())}
    done = ashlar("shared", program.pid, "--form", "json", "--output", "-")
    assert done.returncode == 0 and not done.stderr, done.stderr
    told = json.loads(done.stdout)
    members = {m["pid"]: m for m in told["processes"]}
    assert told["warnings"] == [] and [m["parent"] for m in told["processes"]] == [None] + [program.pid] * len(children)

    def mib(child, cause):
        return members[children[child]]["written"]["causes"].get(cause, {"pages": 0})["pages"] * told["page_bytes"] / 2 ** 20

    # The least that each has written, and that the idle one has next to none of it.
    least = {("live", written.LIVE): 2.0, ("died", "states of cells"): 0.04, ("holes", "blocks taken since: cells"): 0.5, ("texts", written.PIECE_LIVE): 2.0,
             ("freed", "states of cells"): 0.02, ("large", written.LARGE_WRITTEN): 0.5}
    found = {key: mib(*key) for key in least}
    assert not [(key, value) for key, value in found.items() if value < least[key]]
    idle = {cause: mib("idle", cause) for _, cause in least}
    assert all(idle[cause] < 0.1 for cause in idle if cause != written.LIVE) and idle[written.LIVE] < 0.3, idle
    # A child writes into nothing that is free of what it has from its parent.
    spared = {key: mib(*key) for key in [("died", written.DIED), ("died", written.FREE), ("holes", written.REUSED), ("freed", written.PIECE_FREED),
                                         ("freed", written.PIECE_REUSED)]}
    assert all(value < 0.1 for value in spared.values()), spared
    assert members[children["live"]]["written"]["types"]["structs"] == 60_000
    assert "structs" not in members[children["idle"]]["written"]["types"]
    # What one has written is no other's.
    assert mib("texts", written.LIVE) < 0.3 and mib("live", written.PIECE_LIVE) < 0.3

    # The sums are the kernel's own.
    for member in members.values():
        with open(f"/proc/{member['pid']}/smaps_rollup", encoding="ascii") as file:
            rollup = {name: int(rest.split()[0]) * 1024 for name, _, rest in (line.partition(":") for line in file.readlines()[1:])}
        total = {field: sum(a[field] for a in member["amounts"].values()) for field in ("shared", "dirty", "clean")}
        assert abs(total["dirty"] - rollup["Private_Dirty"]) < 2 ** 18 and abs(sum(total.values()) - rollup["Rss"]) < 2 ** 20
        assert abs(member["written"]["pages"] * told["page_bytes"] - total["dirty"]) < 2 ** 18 if member["written"] else True


CLASSES = """\
class Account
  attr_accessor :balance
  def initialize = @balance = 0
end
Point = Struct.new(:x)
nameless, long = Class.new(Account), Object.const_set("L#{"o" * 300}ng", Class.new(Account))
accounts = Array.new(20_000) { Account.new } + Array.new(500) { Account.new.extend(Comparable) }
accounts += Array.new(3_000) { nameless.new } + Array.new(1_000) { long.new }
points = Array.new(2_000) { Point.new(0) }
times = Array.new(1_500) { Time.at(0) }
4.times { GC.start }
GC.disable
fork do
  accounts.each { |account| account.balance += 1 }
  points.each { |point| point.x += 1 }
  times.each(&:utc)
  puts Process.pid
  $stdout.flush
  sleep
end
sleep
"""


@pytest.fixture
def inside():
    """The Ruby with this clone's Ashlar inside."""
    if not os.environ.get("RUBY_INSIDE"):
        pytest.skip('needs the Ruby with Ashlar inside: eval "$(make -s env)"')
    return os.environ["RUBY_INSIDE"]


@pytest.mark.parametrize("on", ["library", pytest.param("inside", marks=pytest.mark.rubies)])
def test_objects_that_were_written_are_told_by_class(ashlar, start, request, tmp_path, on):
    program, child = start(CLASSES, on=request.getfixturevalue("inside") if on == "inside" else None)
    told = json.loads(ashlar("shared", program.pid, "--form", "json", "--output", "-").stdout)
    parent, forked = told["processes"]
    found = forked["written"]["classes"]
    least = {"Account": 20_500, classes.NAMELESS: 3_000, "L" + "o" * 199 + "…": 1_000, "Point": 2_000, "Time": 1_500}
    assert str(forked["pid"]) == child and {name: found.get(name) for name in least} == least and classes.UNKNOWN not in found
    assert sum(found.values()) == sum(forked["written"]["types"].get(name, 0) for name in written._OF_MANY_CLASSES)
    shown = ashlar("shared", program.pid, "--lines", "3").stdout
    assert re.search(r"\| Account +\| 20,500 \|", shown) and "| Time " not in shown and re.search(r"\d+ more are left out; --lines \d+ shows all\.", shown)
    ashlar("shared", program.pid, "--form", "html")
    assert "Account</t" in (tmp_path / f"shared-{program.pid}.html").read_text()


CACHES = """\
class Page; def text(x) = x; end
eval Array.new(8_000) { |i| "def method_#{i}(page)\n#{"page.text(page.text(1)); " * (i % 13 + 1)}\nend\n" }.join
page, names = Page.new, Array.new(8_000) { |i| :"method_#{i}" }
4.times { GC.start }
tasks = { idle: -> {}, ran: -> { names.each { |name| send(name, page) } }, collected: -> { names.each { |name| send(name, page) }; 4.times { GC.start } } }
started = tasks.map do |name, task|
  theirs, mine = IO.pipe
  pid = fork { theirs.close; task.call; mine.puts "done"; mine.flush; sleep }
  mine.close
  abort "#{name} failed" unless theirs.gets == "done\\n"
  "#{name}=#{pid}"
end
puts started.join(" ")
$stdout.flush
sleep
"""


@pytest.mark.rubies
def test_caches_of_code_that_a_child_filled_are_a_kind_of_their_own(ashlar, start, inside):
    program, said = start(CACHES, on=inside)
    children = {int(pid): name for name, pid in (word.split("=") for word in said.split())}
    told = json.loads(ashlar("shared", program.pid, "--form", "json", "--output", "-").stdout)
    members = {children.get(m["pid"], "parent"): m for m in told["processes"]}
    own = {name: m["amounts"].get(kinds.CODE, {"dirty": 0})["dirty"] / 2 ** 20 for name, m in members.items()}
    pages = {name: members[name]["written"]["causes"].get(kinds.CODE, {"pages": 0})["pages"] * told["page_bytes"] / 2 ** 20 for name in children.values()}
    assert own["idle"] < 0.2 and min(own["ran"], own["collected"]) > 0.7, own
    # A full collection forgets call caches that nothing else refers to, so that they read again as they do in the parent.
    assert pages["idle"] < 0.2 and pages["ran"] > 0.7, pages
    assert re.search(r"\| caches of code +\|", ashlar("shared", program.pid).stdout)


def test_the_forms_tell_of_the_tree_and_a_child_alone_names_its_parent(ashlar, start, tmp_path):
    program, said = start(PROGRAM)
    shown = ashlar("shared", program.pid).stdout
    assert re.search(rf"- ruby \({program.pid}\) and 7 other processes: PSS [\d.]+ MiB together", shown)
    assert "| cells that live " in shown and "| structs " in shown and re.search(r"\| cells of 40 bytes +\|", shown)
    assert ashlar("shared", program.pid, "--form", "html").stdout == f"wrote shared-{program.pid}.html\n"
    page = (tmp_path / f"shared-{program.pid}.html").read_text()
    assert "cells that live" in page and page.count('class="bar"') == 8 and "http" not in page.replace("http-equiv", "")
    child = said.split()[0].partition("=")[2]
    alone = ashlar("shared", child).stdout
    assert f"process {child} was forked by {program.pid} (ruby)" in alone and "there is nothing to compare" in alone
    (tmp_path / "app.rb").unlink()


NESTED = """\
$stdout.sync = true
other = spawn("sleep", "60")
child = fork do
  kept = Array.new(50_000) { |i| "made by the child #{i}" }
  4.times { GC.start }
  puts fork { kept.each { |text| text.setbyte(0, 77) }; puts "done"; sleep }
  sleep
end
puts child
sleep
"""


def test_a_worker_s_worker_is_compared_with_it_and_a_program_of_another_kind_is_left_out(ashlar, start):
    program, first = start(NESTED)
    said = {first, program.stdout.readline().strip(), program.stdout.readline().strip()}
    assert "done" in said
    done = ashlar("shared", program.pid, "--form", "json", "--output", "-")
    told = json.loads(done.stdout)
    members = told["processes"]
    assert [m["parent"] for m in members] == [None, program.pid, members[1]["pid"]] and {str(m["pid"]) for m in members[1:]} == said - {"done"}
    assert members[2]["written"]["types"]["strings"] >= 50_000 > members[1]["written"]["types"].get("strings", 0)
    assert len(told["warnings"]) == 1 and re.match(r"1 process is left out: process \d+ \(sleep\) has no heap of Ashlar's", told["warnings"][0])


REFORKED = """\
syscall(RUBY_PLATFORM.start_with?("aarch64") ? 167 : 157, 36, 1, 0, 0, 0) # prctl: the children of what has ended become this process's
$stdout.sync = true
top = Process.pid
template = fork do
  kept = Array.new(50_000) { |i| "made by the template #{i}" }
  4.times { GC.start }
  worker = lambda do
    kept.each { |text| text.setbyte(0, 77) }
    sleep 0.01 until Process.ppid == top
    puts Process.pid
    sleep
  end
  Process.wait(fork { fork(&worker); exit! })
  STDIN.read if ARGV == ["stay"]
  exit!
end
puts template
Process.wait(template) unless ARGV == ["stay"]
puts "ready"
sleep
"""


def reforked(start, *arguments):
    """A program whose template has forked a worker that is now a child of the program itself, as Pitchfork does; the numbers of all three."""
    program, first = start(REFORKED, *arguments)
    said = [first, *(program.stdout.readline().strip() for _ in range(2))]
    template, worker = (int(word) for word in said if word.isdecimal())
    assert "ready" in said and Path(f"/proc/{worker}/stat").read_text().split()[3] == str(program.pid)
    return program.pid, template, worker


def test_a_worker_that_was_forked_twice_is_compared_with_the_process_that_it_is_a_copy_of(ashlar, start):
    program, template, worker = reforked(start, "stay")
    told = json.loads(ashlar("shared", program, "--form", "json", "--output", "-").stdout)
    members = told["processes"]
    assert [(m["pid"], m["parent"]) for m in members] == [(program, None), (template, program), (worker, template)] and told["warnings"] == []
    assert members[2]["written"]["types"]["strings"] >= 50_000 > members[1]["written"]["types"].get("strings", 0)
    alone = ashlar("shared", worker).stdout
    assert f"process {worker} was forked by {template} (ruby), which this leaves out; ashlar shared {program} compares both" in alone


def test_a_worker_whose_forker_has_ended_is_not_compared_with_another_process(ashlar, start):
    program, template, worker = reforked(start)
    assert not Path(f"/proc/{template}").exists()
    told = json.loads(ashlar("shared", program, "--form", "json", "--output", "-").stdout)
    # The program forked what has ended, so it is the nearest that is left.
    assert [(m["pid"], m["parent"]) for m in told["processes"]] == [(program, None), (worker, program)]
    alone = ashlar("shared", worker).stdout
    assert f"process {worker} was forked by {program} (ruby), which this leaves out" in alone


def test_a_page_has_the_name_that_was_asked_for_with_its_ending_once(ashlar, start, tmp_path):
    program, _ = start('puts "ready"; $stdout.flush; sleep')
    for output, written in [("one", "one.html"), ("two.html", "two.html"), ("v1.2", "v1.2.html"), (None, f"shared-{program.pid}.html")]:
        done = ashlar("shared", program.pid, "--form", "html", *(["--output", output] if output else []))
        assert done.stdout == f"wrote {written}\n" and (tmp_path / written).read_text().startswith("<!doctype html>"), done.stderr


def test_a_process_that_stands_still_is_read_without_its_help(ashlar, start):
    program, said = start('puts "ready"; $stdout.flush; sleep')
    os.kill(program.pid, signal.SIGSTOP)
    done = ashlar("shared", program.pid)
    assert done.returncode == 0 and said == "ready" and "| cells " in done.stdout, done.stderr


# ── Bad input ──────────────────────────────────────────────────────────────

@pytest.mark.parametrize(("arguments", "complaint"), [
    (("4194304",), "there is no process 4194304"),
    (("app",), "'app' is no process's number"),
    (("0",), "'0' is no process's number"),
    (("1", "--form", "csv"), "--form has 'csv'; give one of terminal,html,json"),
    (("1", "--output", "x"), "--output names a file, and --form terminal writes none"),
    (("1", "--lines", "0"), "--lines 0 shows nothing"),
])
def test_bad_input_gets_one_line_and_status_2(ashlar, tmp_path, arguments, complaint):
    done = ashlar("shared", *arguments)
    assert done.returncode == 2 and complaint in done.stderr and done.stderr.count("\n") == 1 and list(tmp_path.iterdir()) == []


def test_a_process_without_ashlar_is_named(ashlar):
    with subprocess.Popen(["sleep", "60"]) as other:
        try:
            done = ashlar("shared", other.pid)
        finally:
            other.kill()
    assert done.returncode == 2 and f"process {other.pid} (sleep) has no heap of Ashlar's" in done.stderr and done.stderr.count("\n") == 1


def test_a_file_that_the_system_lacks_is_named_and_the_process_is_not_said_to_be_gone(monkeypatch):
    def lacking(path, *_):
        raise FileNotFoundError(2, "No such file or directory", path)
    monkeypatch.setattr(process.os, "open", lacking)
    with pytest.raises(BadInput, match=rf"cannot read the memory of process {os.getpid()} \(.*\): this system has no /proc/{os.getpid()}/mem, which"):
        process.Process(os.getpid())


def test_a_process_that_may_not_be_read_is_named(monkeypatch):
    def refuse(*_):
        raise PermissionError(13, "Permission denied")
    monkeypatch.setattr(process.os, "open", refuse)
    with pytest.raises(BadInput, match=f"not allowed to read the memory of process {os.getpid()}"):
        process.Process(os.getpid())
