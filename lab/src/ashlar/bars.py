"""A tree as bars: each hangs from the one above it, and is as wide as its bytes. One SVG element; point at a bar to read it."""

from collections.abc import Sequence
from typing import NamedTuple

from ashlar.said import xml

WIDTH = 960
_HEIGHT = 22
DEEP = 64  # levels below the first one that are drawn
_LEAST_PIXELS = 1.5
_LETTER = 6.6


class Bar(NamedTuple):
    """`told` is what a reader sees who points at it; `hue` is in degrees, that of the label where there is none."""

    label: str
    told: str
    size: float
    below: "Sequence[Bar]"
    hue: int | None = None


def draw(root: Bar, name: str) -> str:
    parts, deepest, open_ = [], 0, [(root, 0.0, 0)]
    while open_:
        bar, x, depth = open_.pop()
        width = WIDTH * bar.size / (root.size or 1)
        if width < _LEAST_PIXELS or depth > DEEP:
            continue
        deepest, y = max(deepest, depth), depth * _HEIGHT
        hue = sum(ord(c) * (i + 3) for i, c in enumerate(bar.label)) * 47 % 360 if bar.hue is None else bar.hue
        letters = int((width - 8) / _LETTER)
        text = bar.label if len(bar.label) <= letters else bar.label[:letters - 1] + "…" if letters > 3 else ""
        shown = f'<text class="ink" x="{x + 5:.1f}" y="{y + 14}" font-size="11.5">{xml(text)}</text>' if text else ""
        parts.append(f'<g><title>{xml(bar.told)}</title><rect x="{x:.1f}" y="{y}" width="{max(1, width - 1):.1f}" height="{_HEIGHT - 2}" rx="2" '
                     f'fill="hsl({hue} 45% 50% / .38)"/>{shown}</g>')
        for below in bar.below:
            open_.append((below, x, depth + 1))
            x += WIDTH * below.size / (root.size or 1)
    return (f'<svg viewBox="0 0 {WIDTH} {(deepest + 1) * _HEIGHT + 2}" role="img" aria-label="{xml(name)}">'
            f'{"".join(parts)}</svg>')
