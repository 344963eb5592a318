"""A profile in pprof's format: the message `Profile` of profile.proto in protobuf's wire format, gzipped.

The sample types are those of Go's heap profiles. Only what such a profile needs is written: varints, texts, and messages in messages
(protobuf.dev/programming-guides/encoding).
"""

import gzip
from collections import defaultdict

from ashlar.heap.profile import Profile

_TYPES = (("alloc_objects", "count"), ("alloc_space", "bytes"), ("inuse_objects", "count"), ("inuse_space", "bytes"))


def render(found: Profile) -> bytes:
    image, texts, functions, locations, messages = found.image, _numbered(0), _numbered(1), _numbered(1), []
    texts[""] = 0  # the first one is empty
    for name, unit in _TYPES:
        messages.append(_message(1, _numbers({1: texts[name], 2: texts[unit]})))
    for site in found.sites:
        if not site.amounts.sampled:
            continue
        places = [locations[(f.label, f.path, f.first_line), f.line] for f in site.stack_shown]
        values = [round(e.value) for some in (site.amounts.allocated, site.amounts.live) for e in (some.objects, some.bytes)]
        labels = _message(3, _numbers({1: texts["class"], 2: texts[site.class_shown]})) + _message(3, _numbers({1: texts["kind"], 2: texts[site.kind]}))
        if site.width:
            labels += _message(3, _numbers({1: texts["width"], 3: site.width, 4: texts["bytes"]}))
        messages.append(_message(2, _packed(1, places) + _packed(2, values) + labels))
    # One mapping, known to have functions, files and lines: without it readers look for symbols of a binary.
    messages.append(_message(3, _numbers({1: 1, 5: texts[image.command.partition(" ")[0] or "ruby"], 7: 1, 8: 1, 9: 1})))
    for (function, line), number in locations.items():
        messages.append(_message(4, _numbers({1: number, 2: 1}) + _message(4, _numbers({1: functions[function], 2: line}))))
    for (label, path, first_line), number in functions.items():
        # No system name: a reader that found the same one there would take `<main>` for C++ and demangle it.
        messages.append(_message(5, _numbers({1: number, 2: texts[label], 4: texts[path], 5: first_line})))
    comments = [texts[c] for c in (image.command, image.ruby) if c]
    rest = (_numbers({9: image.taken_ns, 10: max(image.taken_ns - image.sampling_since_ns, 0)}) + _message(11, _numbers({1: texts["space"], 2: texts["bytes"]}))
            + _numbers({12: image.period_bytes}) + _packed(13, comments) + _numbers({14: texts["inuse_space"]}))
    strings = b"".join(_message(6, text.encode("utf-8", "replace")) for text in texts)
    return gzip.compress(b"".join(messages) + strings + rest, 6, mtime=0)


def _numbered(first: int) -> defaultdict:
    """Gives whatever is asked for a number, one after the other."""
    numbers = defaultdict(lambda: first + len(numbers))
    return numbers


# ── The wire format ────────────────────────────────────────────────────────

def _varint(value: int) -> bytes:
    value &= 2 ** 64 - 1
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(parts + bytes((value,)))


def _numbers(fields: dict[int, int]) -> bytes:
    """By the numbers of their fields. A zero is what a reader takes for granted."""
    return b"".join(_varint(field << 3) + _varint(value) for field, value in fields.items() if value)


def _message(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _packed(field: int, values: list[int]) -> bytes:
    return _message(field, b"".join(map(_varint, values))) if values else b""
