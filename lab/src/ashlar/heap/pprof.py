"""A profile in pprof's format: the message `Profile` of profile.proto in protobuf's wire format, gzipped.

The sample types are those of Go's heap profiles. Only what such a profile needs is written: varints, texts, and messages in messages
(protobuf.dev/programming-guides/encoding).
"""

import gzip

from ashlar.heap.profile import Frame, Profile

_TYPES = (("alloc_objects", "count"), ("alloc_space", "bytes"), ("inuse_objects", "count"), ("inuse_space", "bytes"))


def render(found: Profile) -> bytes:
    image, texts, messages = found.image, _Texts(), []
    for name, unit in _TYPES:
        messages.append(_message(1, _numbers({1: texts[name], 2: texts[unit]})))
    functions: dict[tuple, int] = {}
    locations: dict[tuple, int] = {}
    for site in found.sites:
        if not site.amounts.sampled:
            continue
        places = [_location(f, functions, locations) for f in site.stack_shown]
        values = [round(e.value) for some in (site.amounts.allocated, site.amounts.live) for e in (some.objects, some.bytes)]
        labels = _message(3, _numbers({1: texts["class"], 2: texts[site.class_shown]})) + _message(3, _numbers({1: texts["kind"], 2: texts[site.kind]}))
        if site.width:
            labels += _message(3, _numbers({1: texts["width"], 3: site.width, 4: texts["bytes"]}))
        messages.append(_message(2, _packed(1, places) + _packed(2, values) + labels))
    # One mapping, known to have functions, files and lines: without it readers look for symbols of a binary.
    messages.append(_message(3, _numbers({1: 1, 5: texts[image.command.partition(" ")[0] or "ruby"], 7: 1, 8: 1, 9: 1})))
    for (*function, line), number in locations.items():
        messages.append(_message(4, _numbers({1: number, 2: 1}) + _message(4, _numbers({1: functions[tuple(function)], 2: line}))))
    for (label, path, first_line), number in functions.items():
        # No system name: a reader that found the same one there would take `<main>` for C++ and demangle it.
        messages.append(_message(5, _numbers({1: number, 2: texts[label], 4: texts[path], 5: first_line})))
    comments = [texts[c] for c in (image.command, image.ruby) if c]
    rest = (_numbers({9: image.taken_ns, 10: max(image.taken_ns - image.sampling_since_ns, 0)}) + _message(11, _numbers({1: texts["space"], 2: texts["bytes"]}))
            + _numbers({12: image.period_bytes}) + _packed(13, comments) + _numbers({14: texts["inuse_space"]}))
    return gzip.compress(b"".join(messages) + texts.messages() + rest, 6, mtime=0)


class _Texts:
    """The string table; the first one is empty."""

    def __init__(self):
        self._numbers = {"": 0}

    def __getitem__(self, text: str) -> int:
        return self._numbers.setdefault(text, len(self._numbers))

    def messages(self) -> bytes:
        return b"".join(_message(6, text.encode("utf-8", "replace")) for text in self._numbers)


def _location(frame: Frame, functions: dict, locations: dict) -> int:
    function = (frame.label, frame.path, frame.first_line)
    functions.setdefault(function, len(functions) + 1)
    return locations.setdefault((*function, frame.line), len(locations) + 1)


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
