"""What was measured as a page: the verdict, memory over time, the figures."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from dataclasses import replace

from ashlar import page, palette
from ashlar.said import xml
from ashlar.trying import report
from ashlar.trying.compare import NAMES
from ashlar.trying.report import Found
from ashlar.trying.rubies import ASHLAR, STOCK
from ashlar.trying.run import Run

# Drawn twice, so that its letters are as large on a narrow screen: the width, and how many marks it has upwards and along.
_WIDE, _NARROW = (960, 5, 8), (420, 4, 4)
_HEIGHT = 340
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 16, 14, 34
_MIB = 1 << 20
_POINTS = 600
# Stock is drawn in dashes, so that the two are told apart without their colours.
_STYLE = """
.s0.line,.s1.line{stroke-width:2.4;stroke-linejoin:round}.s0.line{stroke-dasharray:7 4}.s0.faint,.s1.faint{stroke-width:1.3;stroke-opacity:.45}
.asked{opacity:.5}
figure svg.narrow{display:none;min-width:0}
@media (max-width:600px){#figures th,#figures td{padding:5px 4px;font-size:.8rem}figure svg.wide-chart{display:none}figure svg.narrow{display:block}}
svg text{font:13px system-ui,"Segoe UI","DejaVu Sans",Arial,sans-serif;stroke:none}
.command{font-family:ui-monospace,"DejaVu Sans Mono",monospace;overflow-wrap:anywhere}
.key{display:inline-flex;align-items:center;margin:0 18px 2px 0}.key svg{width:34px;min-width:34px!important;height:12px;margin-right:6px}
"""


def render(found: Found) -> str:
    first, *rest = report.facts(found)
    title = "With and without Ashlar" if len(found.sides) == 2 else f"On {NAMES[found.sides[0]]}"
    table = replace(report.table(found), title="Figures")
    parts = [page.verdict(found.verdict), page.warnings(found.warnings), page.section("Memory over time", _figure(found)), page.table(table),
             page.section("How it was measured", page.facts(rest))]
    return page.page(f"{title}: {_short(found.plan.command)}", parts, style=palette.css_of_reader() + _STYLE,
                     below_title=f'<p class="facts command">{xml(first)}</p>\n')


def _short(command: Sequence[str]) -> str:
    text = shlex.join(command)
    return text if len(text) <= 60 else text[:59] + "…"


# ── The chart ──────────────────────────────────────────────────────────────

def _figure(found: Found) -> str:
    keys = "".join('<span class="key"><svg viewBox="0 0 34 12" aria-hidden="true">'
                   f'<path class="{_class(side)} line" d="M1 6H33"/></svg>{NAMES[side]}</span>' for side in found.sides)
    asked = "; from the thin upright lines on it is asked" if any(run.answered for run in found.runs) else ""
    more = "; faint lines are the other rounds" if found.rounds > 1 else ""
    caption = f"<figcaption>{keys}<br>PSS, summed over all processes{asked}{more}.</figcaption>"
    return f'<figure class="wide">{_chart(found, "wide-chart", *_WIDE)}{_chart(found, "narrow", *_NARROW)}{caption}</figure>'


def _class(side: str) -> str:
    return "s0" if side == STOCK else "s1"


def _chart(found: Found, name: str, width: int, marks_up: int, marks_along: int) -> str:
    runs = [run for run in found.runs if run.samples]
    most = max(s.pss_bytes for run in runs for s in run.samples) / _MIB
    last = max(run.samples[-1].at_s for run in runs) or 1.0
    up, right = _step(most, marks_up), _step(last, marks_along)
    top = math.ceil(most / up) * up

    def x(at_s: float) -> float:
        return _LEFT + (width - _LEFT - _RIGHT) * at_s / last

    def y(mib: float) -> float:
        return _HEIGHT - _BOTTOM - (_HEIGHT - _BOTTOM - _TOP) * mib / top

    parts = []
    for i in range(round(top / up) + 1):
        parts.append(f'<path class="grid" d="M{_LEFT} {y(i * up):.1f}H{width - _RIGHT}"/>'
                     f'<text class="soft" x="{_LEFT - 8}" y="{y(i * up) + 4:.1f}" text-anchor="end">{_number(i * up)}{" MiB" if i * up + up > top else ""}</text>')
    for i in range(int(last / right) + 1):
        anchor = "end" if x(i * right) > width - 30 else "middle"
        parts.append(f'<text class="soft" x="{x(i * right):.1f}" y="{_HEIGHT - 12}" text-anchor="{anchor}">{_number(i * right)} s</text>')
    main = {id(found.first(side)) for side in (STOCK, ASHLAR)}
    for run in sorted(runs, key=lambda r: id(r) in main):
        parts.append(f'<path class="{_class(run.side)} {"line" if id(run) in main else "faint"}" d="{_path(run, x, y)}">'
                     f'<title>{NAMES[run.side]}, round {run.round}</title></path>')
        if run.answered and id(run) in main:
            at = x(run.window_s[0])
            parts.append(f'<path class="{_class(run.side)} asked" stroke-width="1" d="M{at:.1f} {_TOP}V{_HEIGHT - _BOTTOM}"/>')
    return f'<svg class="{name}" viewBox="0 0 {width} {_HEIGHT}" role="img" aria-label="Memory over time">{"".join(parts)}</svg>'


def _path(run: Run, x, y) -> str:
    samples = run.samples[::max(1, len(run.samples) // _POINTS)]
    return "M" + "L".join(f"{x(s.at_s):.1f} {y(s.pss_bytes / _MIB):.1f}" for s in samples)


def _step(most: float, count: int) -> float:
    """1, 2 or 5 of some power of ten, so that about `count` of them make the most."""
    unit = 10 ** math.floor(math.log10(most / count)) if most > 0 else 1.0
    return next(unit * n for n in (1, 2, 5, 10) if unit * n * count >= most)


def _number(value: float) -> str:
    return f"{value:,.10g}"
