"""A small chart: axes, lines, bands, points, whiskers. Output is one SVG element whose colours are classes."""

import math
from collections.abc import Sequence

from ashlar import palette
from ashlar.said import xml

Point = tuple[float, float]
_POINTS = 160


class Scale:
    """Maps data to pixels, linear or logarithmic."""

    def __init__(self, low: float, high: float, start: float, end: float, log: bool = False):
        if log:
            low, high = math.log(low), math.log(high)
        if high == low:
            low, high = low - 0.5 * (abs(low) or 1), high + 0.5 * (abs(high) or 1)
        self._low, self._step, self._start, self.log = low, (end - start) / (high - low), start, log
        self.bounds = (math.exp(low), math.exp(high)) if log else (low, high)

    def __call__(self, value: float) -> float:
        return self._start + ((math.log(value) if self.log else value) - self._low) * self._step

    def ticks(self, wanted: int = 5) -> list[float]:
        low, high = self.bounds
        if self.log and high / low > 20:
            powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
            found = [m * 10.0**p for p in powers for m in (1, 2, 5)]
            found = [t for t in found if low <= t <= high]
            return found if len(found) <= 2 * wanted else [t for t in found if f"{t:e}"[0] == "1"]
        rough = (high - low) / wanted
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= rough)
        first = math.ceil(low / step - 1e-9)
        return [round(i * step, 12) for i in range(first, int(high / step + 1e-9) + 1)]


def thinned(series: Sequence[tuple], most: int = _POINTS) -> list[Point]:
    """At most so many points of readings (time, value, ...), keeping the highest of each stretch so that peaks stay."""
    step = math.ceil(len(series) / most)
    return [max(((t, v) for t, v, *_ in series[i:i + step]), key=lambda p: p[1]) for i in range(0, len(series), step)] if series else []


def stretches(series: Sequence[tuple], end: float, count: int) -> list[float | None]:
    """The highest of the readings (time, value, ...) in each of so many equal stretches of time until `end`. One without a reading is as the one
    before it; those after the last reading have none."""
    found: list[float | None] = [None] * count
    last = 0
    for time, value, *_ in series:
        last = min(count - 1, int(time / end * count)) if end > 0 else 0
        found[last] = max(value, found[last] or 0.0)
    for i in range(last):
        if found[i] is None:
            found[i] = found[i - 1] if i else 0.0
    return found


def tick_text(value: float) -> str:
    for limit, letter in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= limit:
            return f"{value / (1e3 if letter == 'k' else limit):g}{letter}"
    return f"{value:g}"


_LEGEND_LINE = 17
_NOTE_LETTER = 8  # a capital of a note; most letters are narrower


class Chart:
    """Accumulates marks between two axes. Sizes are in SVG user units, one per CSS pixel at full width."""

    def __init__(self, x: tuple[float, float], y: tuple[float, float], *, title: str, x_title: str, y_title: str = "",
                 width: int = 720, height: int = 400, left: int = 62, log_x: bool = False, log_y: bool = False):
        self.width, self.height, self.title = width, height, title
        self._left, self._right, self._top, self._bottom = left, 18, 40, 46
        self.x = Scale(*x, left, width - self._right, log_x)
        self.y = Scale(*y, height - self._bottom, self._top, log_y)
        self._marks: list[str] = []
        self._legend: list[tuple[str, int]] = []
        self._x_title, self._y_title = x_title, y_title
        self._rows: list[tuple[str, float]] = []
        self._columns: list[tuple[str, float]] = []

    def legend(self, name: str, series: int) -> None:
        self._legend.append((name, series))

    def row(self, label: str, y: float) -> None:
        """A text at the left of the plot instead of a tick; for charts whose rows are names."""
        self._rows.append((label, y))

    def column(self, label: str, x: float) -> None:
        """A text below the plot instead of a tick; for charts whose columns are names."""
        self._columns.append((label, x))

    def line(self, points: Sequence[Point], series: int, faint: bool = False, dashed: bool = False, tip: str = "") -> None:
        if len(points) < 2:
            return
        path = " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in points)
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        style = "faint" if faint else "line"
        ending = f"><title>{xml(tip)}</title></polyline>" if tip else "/>"
        self._marks.append(f'<polyline class="s{series % palette.SERIES} {style}" stroke-width="{1 if faint else 2}"{dash} points="{path}"{ending}')

    def band(self, xs: Sequence[float], low: Sequence[float], high: Sequence[float], series: int) -> None:
        points = [f"{self.x(x):.1f},{self.y(v):.1f}" for x, v in zip(xs, high)]
        points += [f"{self.x(x):.1f},{self.y(v):.1f}" for x, v in zip(reversed(xs), reversed(low))]
        self._marks.append(f'<polygon class="s{series % palette.SERIES} band" points="{" ".join(points)}"/>')

    def point(self, x: float, y: float, series: int, tip: str, size: float = 4) -> None:
        self._marks.append(_shape(self.x(x), self.y(y), series, size, tip))

    def whisker(self, low: float, high: float, y: float, series: int) -> None:
        """A horizontal interval, cut at the plot's edge."""
        left, right = self.x.bounds
        a, b = self.x(max(low, left)), self.x(min(high, right))
        self._marks.append(f'<line class="s{series % palette.SERIES}" stroke-width="2" x1="{a:.1f}" x2="{b:.1f}" y1="{self.y(y):.1f}" y2="{self.y(y):.1f}"/>')

    def cross(self, x: tuple[float, float], y: tuple[float, float], at: Point, series: int) -> None:
        """Error bars of a point in both directions."""
        cx, cy = self.x(at[0]), self.y(at[1])
        self._marks.append(f'<path class="s{series % palette.SERIES} line" stroke-width="1" d="M{self.x(x[0]):.1f} {cy:.1f}H{self.x(x[1]):.1f}'
                           f'M{cx:.1f} {self.y(y[0]):.1f}V{self.y(y[1]):.1f}"/>')

    def note(self, x: float, y: float, text: str, series: int, dx: float = 7, dy: float = -6) -> None:
        at = self.y(y) + dy
        if at > self.height - self._bottom - 3:  # it would lie on the axis
            at = self.y(y) - 10
        place, anchor = self.x(x) + dx, ""
        if place + _NOTE_LETTER * len(text) > self.width:  # it would be cut off
            place, anchor = self.x(x) - abs(dx), ' text-anchor="end"'
        self._marks.append(f'<text class="s{series % palette.SERIES}" stroke="none" style="stroke:none" font-size="11"{anchor} x="{place:.1f}" y="{at:.1f}">{xml(text)}</text>')

    def vertical(self, x: float, series: int | None = None) -> None:
        """An upright line; thin and in the colour of a series where it is about that."""
        at = self.x(x)
        style = 'class="axis" stroke-dasharray="4 3"' if series is None else f'class="s{series % palette.SERIES}" stroke-opacity="0.5"'
        self._marks.append(f'<line {style} x1="{at:.1f}" x2="{at:.1f}" y1="{self._top}" y2="{self.height - self._bottom}"/>')

    def render(self, style: str = "") -> str:
        """The SVG element. `style` is CSS for a stand-alone file; a page that holds the chart brings its own."""
        legend, lower = self._legend_marks()
        height = self.height + lower
        head = (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {height}" role="img" '
                f'aria-label="{xml(self.title)}" font-family="DejaVu Sans, Liberation Sans, Arial, sans-serif">')
        if style:
            head += f'<style>{style}</style><rect class="paper" width="{self.width}" height="{height}"/>'
        else:
            head += f"<title>{xml(self.title)}</title>"
        body = self._frame() + "".join(self._marks)
        heading = f'<text class="ink" font-size="14" font-weight="600" x="{8 if self._rows else self._left}" y="16">{xml(self.title)}</text>'
        return head + (f'<g transform="translate(0 {lower})">{body}</g>' if lower else body) + heading + legend + "</svg>"

    def _frame(self) -> str:
        bottom, right = self.height - self._bottom, self.width - self._right
        parts = []
        wanted = max(3, (self.width - self._left) // 110)
        for text, tick in self._columns or [(tick_text(t), t) for t in self.x.ticks(wanted)]:
            at = self.x(tick)
            parts.append(f'<line class="grid" x1="{at:.1f}" x2="{at:.1f}" y1="{self._top}" y2="{bottom}"/>'
                         f'<text class="soft" font-size="11" text-anchor="middle" x="{at:.1f}" y="{bottom + 16}">{xml(text)}</text>')
        if self._rows:
            for label, y in self._rows:
                parts.append(f'<text class="ink" font-size="12" text-anchor="end" x="{self._left - 10}" y="{self.y(y) + 4:.1f}">{xml(label)}</text>')
        else:
            for tick in self.y.ticks():
                at = self.y(tick)
                parts.append(f'<line class="grid" x1="{self._left}" x2="{right}" y1="{at:.1f}" y2="{at:.1f}"/>'
                             f'<text class="soft" font-size="11" text-anchor="end" x="{self._left - 8}" y="{at + 4:.1f}">{tick_text(tick)}</text>')
            middle = (self._top + bottom) / 2
            parts.append(f'<text class="soft" font-size="12" text-anchor="middle" transform="rotate(-90 14 {middle:.0f})" x="14" y="{middle:.0f}">{xml(self._y_title)}</text>')
        parts.append(f'<line class="axis" x1="{self._left}" x2="{right}" y1="{bottom}" y2="{bottom}"/>')
        parts.append(f'<text class="soft" font-size="12" text-anchor="middle" x="{(self._left + right) / 2:.0f}" y="{self.height - 10}">{xml(self._x_title)}</text>')
        return "".join(parts)

    def _legend_marks(self) -> tuple[str, int]:
        """The names in as many lines as they need, and how much lower the plot begins for those after the first."""
        start, line = float(8 if self._rows else self._left), 0
        parts, at = [], start
        for name, series in self._legend:
            wide = 14 + 7.2 * len(name)
            if at > start and at + wide > self.width:
                at, line = start, line + 1
            y = 33 + _LEGEND_LINE * line
            parts.append(_shape(at + 5, y - 4, series, 4, ""))
            parts.append(f'<text class="ink" font-size="12" x="{at + 14:.0f}" y="{y}">{xml(name)}</text>')
            at += wide + 18
        return "".join(parts), _LEGEND_LINE * line


def _shape(x: float, y: float, series: int, size: float, tip: str) -> str:
    """Circle, square, triangle, diamond in turn, so that colour is never the only difference."""
    style = f'class="s{series % palette.SERIES}"'
    inner = f"<title>{xml(tip)}</title>" if tip else ""
    kind = series % 4
    if kind == 0:
        return f'<circle {style} cx="{x:.1f}" cy="{y:.1f}" r="{size}">{inner}</circle>'
    r = size * 1.15
    d = {1: f"M{x - size:.1f} {y - size:.1f}h{2 * size}v{2 * size}h{-2 * size}z",
         2: f"M{x:.1f} {y - r:.1f}L{x + r:.1f} {y + r:.1f}L{x - r:.1f} {y + r:.1f}z",
         3: f"M{x:.1f} {y - 1.3 * size:.1f}L{x + 1.3 * size:.1f} {y:.1f}L{x:.1f} {y + 1.3 * size:.1f}L{x - 1.3 * size:.1f} {y:.1f}z"}[kind]
    return f'<path {style} d="{d}">{inner}</path>'
