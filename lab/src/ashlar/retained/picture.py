"""The map of a heap's blocks. One SVG element."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ashlar.said import xml

_SQUARES = 12_000
_COLUMNS = 120
_SIDE = 8
_WIDTH = _COLUMNS * _SIDE
_NARROW, _WIDE = 32, 1024
_SMALL, _LARGE = 16, 32768


class _Square(NamedTuple):
    """Some neighbouring blocks: what most of them are used for, and their means."""

    use: str
    width: int
    fill: float | None
    age: float | None


def _groups(blocks: list, each: int) -> Iterator[list]:
    """Neighbouring blocks, so many in each group. A block that stands for several, which are alike, may be in several groups."""
    group, room = [], each
    for use, count, width, fill, age in blocks:
        while count:
            taken = min(count, room)
            group.append((use, taken, width, fill, age))
            count, room = count - taken, room - taken
            if not room:
                yield group
                group, room = [], each
    if group:
        yield group


def _square(group: list) -> _Square:
    by_use: Counter = Counter()
    for use, count, width, _, _ in group:
        by_use[use, width] += count
    (use, width), _ = by_use.most_common(1)[0]
    return _Square(use, width, _mean((fill, count) for kind, count, _, fill, _ in group if kind not in ("spare", "released")),
                   _mean((age, count) for _, count, _, _, age in group if age is not None))


def _mean(weighted: Iterable[tuple[float, int]]) -> float | None:
    """Of values that so many blocks have."""
    total = blocks = 0
    for value, count in weighted:
        total, blocks = total + value * count, blocks + count
    return total / blocks if blocks else None


def _between(value: float, low: float, high: float) -> float:
    """Where a width is between two others, from 0 to 1, by doublings."""
    return min(1.0, max(0.0, math.log(value / low) / math.log(high / low)))


def _by_use(square: _Square) -> tuple[str, str]:
    """Colour and meaning of a square by what it is used for, and by width."""
    if square.use == "cells":
        return f"hsl({215 + 130 * _between(square.width, _NARROW, _WIDE):.0f} 62% 54%)", f"cells of {square.width} bytes"
    if square.use == "payloads":
        return f"hsl({165 - 120 * _between(square.width, _SMALL, _LARGE):.0f} 58% 45%)", f"payloads of {square.width} bytes"
    if square.use == "span":
        return "#8f98a5", "payloads larger than half a block"
    return ("#8886", "spare: empty, with memory") if square.use == "spare" else ("#8882", "empty, memory given back")


def _by_fill(square: _Square) -> tuple[str, str]:
    if square.fill is None:
        return "#8882", "empty"
    level = min(10, round(square.fill * 10))
    return f"hsl({8 + 14 * level} 66% {52 - level}%)", f"{10 * level} % full"


def _by_age(square: _Square) -> tuple[str, str]:
    if square.age is None:
        return "#8882", "no objects"
    level = round(square.age * 6)
    return f"hsl({48 + 38 * level} 62% {56 - 2 * level}%)", ("all are old" if level == 6 else "all are new" if level == 0 else f"{round(100 * level / 6)} % of the way to old, in the mean")


_PANELS = (("What a block is used for", _by_use), ("How full it is", _by_fill), ("How old its objects are", _by_age))


def heap_map(blocks: list, css: str = "") -> str:
    """Three maps of the same blocks: coloured by use and width, by how full they are, and by age."""
    each = max(1, math.ceil(sum(block[1] for block in blocks) / _SQUARES))
    squares = [_square(group) for group in _groups(blocks, each)]
    rows = max(1, math.ceil(len(squares) / _COLUMNS))
    panel, parts = rows * _SIDE + 88, []
    for number, (title, colour_of) in enumerate(_PANELS):
        top = number * panel
        parts.append(f'<text class="ink" x="0" y="{top + 18}" font-size="15" font-weight="600">{xml(title)}</text>')
        paths = defaultdict(list)
        for index, square in enumerate(squares):
            y, x = divmod(index, _COLUMNS)
            paths[colour_of(square)].append(f"M{x * _SIDE} {top + 28 + y * _SIDE}h7v7h-7z")
        for (colour, meaning), path in paths.items():
            parts.append(f'<path fill="{colour}" d="{"".join(path)}"><title>{xml(meaning)}</title></path>')
        parts += _legend(number, {meant: len(path) for meant, path in paths.items()}, top + 28 + rows * _SIDE)
    margin = 16 if css else 0
    alone = f"<style>text{{font-family:system-ui,'DejaVu Sans',sans-serif}}{css}</style><rect class=\"paper\" x=\"-{margin}\" y=\"-{margin}\" width=\"100%\" height=\"100%\"/>" if css else ""
    told = f"each square is {'a block' if each == 1 else f'{each} blocks'} of 64 KiB, in the order of their addresses, {_COLUMNS} in a line"
    height = 3 * panel + 12
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-{margin} -{margin} {_WIDTH + 2 * margin} {height + 2 * margin}" role="img" aria-label="Map of the heap">{alone}'
            f'{"".join(parts)}<text class="soft" x="0" y="{height - 4}" font-size="12">{told}</text></svg>')


def _legend(number: int, legend: dict, y: int) -> list[str]:
    """A few of the meanings: of many widths the most frequent ones."""
    shown = sorted(legend, key=legend.get, reverse=True)[:10] if number == 0 else list(legend)[:12]
    if number:
        shown.sort(key=lambda entry: float(entry[0].partition("(")[2].partition(" ")[0] or -1))
    parts, x, line = [], 0, y + 18
    for colour, meaning in shown:
        width = 16 + 6.4 * len(meaning) + 14
        if x + width > _WIDTH:
            x, line = 0, line + 17
        parts.append(f'<rect x="{x:.0f}" y="{line - 9}" width="10" height="10" fill="{colour}"/><text class="soft" x="{x + 14:.0f}" y="{line}" font-size="11.5">{xml(meaning)}</text>')
        x += width
    return parts
