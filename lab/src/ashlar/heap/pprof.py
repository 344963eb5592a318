"""A profile in pprof's format: the message `Profile` of profile.proto in protobuf's wire format, gzipped.

The sample types are those of Go's heap profiles. Only what such a profile needs is written: varints, texts, and messages in messages
(protobuf.dev/programming-guides/encoding).
"""

from __future__ import annotations

import gzip

from ashlar.heap.profile import NOT_RUBY, Frame, Profile

_TYPES = (("alloc_objects", "count"), ("alloc_space", "bytes"), ("inuse_objects", "count"), ("inuse_space", "bytes"))


def render(found: Profile) -> bytes:
    image, texts, messages = found.image, _Texts(), []
    for name, unit in _TYPES:
        messages.append(_message(1, _value_type(texts, name, unit)))
    functions: dict[tuple, int] = {}
    locations: dict[tuple, int] = {}
    for site in found.sites:
        a = site.amounts
        if not (a.allocated_samples or a.live_samples):
            continue
        stack = site.stack or (Frame(NOT_RUBY, "", 0),)
        places = [_location(f, functions, locations) for f in stack]
        values = [round(e.value) for e in (a.allocated_objects, a.allocated_bytes, a.live_objects, a.live_bytes)]
        labels = _message(3, _label(texts, "class", site.class_shown)) + _message(3, _label(texts, "kind", site.kind))
        if site.width:
            labels += _message(3, _number_label(texts, "width", site.width, "bytes"))
        messages.append(_message(2, _packed(1, places) + _packed(2, values) + labels))
    # One mapping, known to have functions, files and lines: without it readers look for symbols of a binary.
    messages.append(_message(3, _number(1, 1) + _number(5, texts[image.command.partition(" ")[0] or "ruby"]) + b"".join(_number(n, 1) for n in (7, 8, 9))))
    for (label, path, first_line, line), number in locations.items():
        entry = _number(1, functions[label, path, first_line]) + _number(2, line)
        messages.append(_message(4, _number(1, number) + _number(2, 1) + _message(4, entry)))
    for (label, path, first_line), number in functions.items():
        # No system name: a reader that found the same one there would take `<main>` for C++ and demangle it.
        messages.append(_message(5, _number(1, number) + _number(2, texts[label]) + _number(4, texts[path]) + _number(5, first_line)))
    comments = [texts[c] for c in (image.command, image.ruby) if c]
    rest = (_number(9, image.taken_ns) + _number(10, max(image.taken_ns - image.sampling_since_ns, 0)) + _message(11, _value_type(texts, "space", "bytes"))
            + _number(12, image.period_bytes) + _packed(13, comments) + _number(14, texts["inuse_space"]))
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


def _value_type(texts: _Texts, name: str, unit: str) -> bytes:
    return _number(1, texts[name]) + _number(2, texts[unit])


def _label(texts: _Texts, key: str, text: str) -> bytes:
    return _number(1, texts[key]) + _number(2, texts[text])


def _number_label(texts: _Texts, key: str, number: int, unit: str) -> bytes:
    return _number(1, texts[key]) + _number(3, number) + _number(4, texts[unit])


# ── The wire format ────────────────────────────────────────────────────────

def _varint(value: int) -> bytes:
    value &= 2 ** 64 - 1
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(parts + bytes((value,)))


def _number(field: int, value: int) -> bytes:
    """A zero is what a reader takes for granted."""
    return _varint(field << 3) + _varint(value) if value else b""


def _message(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _packed(field: int, values: list[int]) -> bytes:
    return _message(field, b"".join(map(_varint, values))) if values else b""
