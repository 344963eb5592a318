"""What was measured as a page: the verdict, memory over time, the figures."""

import shlex
from collections.abc import Sequence

from ashlar import page, palette
from ashlar.chart import Chart, thinned
from ashlar.said import xml
from ashlar.trying import report
from ashlar.trying.compare import NAMES
from ashlar.trying.report import Found
from ashlar.trying.rubies import ASHLAR, STOCK

# Drawn twice, so that its letters are as large on a narrow screen.
_WIDE, _NARROW, _HEIGHT = 960, 420, 340
_MIB = 1 << 20
_POINTS = 600
_SERIES = {STOCK: 0, ASHLAR: 1}
# Stock is drawn in dashes, so that the two are told apart without their colours.
_DASHES = ' stroke-dasharray="5 4"'
_STYLE = """
.narrow{display:none}.narrow svg{min-width:0}
.faint{stroke-opacity:.45}.wide-chart text{font-size:13px}
@media (max-width:600px){#figures th,#figures td{padding:5px 4px;font-size:.8rem}.wide-chart{display:none}.narrow{display:block}}
.command{font-family:ui-monospace,"DejaVu Sans Mono",monospace;overflow-wrap:anywhere}
.key{display:inline-flex;align-items:center;margin:0 18px 2px 0}.key svg{width:34px;min-width:34px!important;height:12px;margin-right:6px}
"""


def render(found: Found) -> str:
    first, *rest = report.facts(found)
    title = "With and without Ashlar" if len(found.sides) == 2 else f"On {NAMES[found.sides[0]]}"
    table = report.table(found)._replace(title="Figures")
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
                   f'<path class="s{_SERIES[side]} line" stroke-width="2"{_DASHES if side == STOCK else ""} d="M1 6H33"/></svg>{NAMES[side]}</span>' for side in found.sides)
    asked = "; from the thin upright lines on it is asked" if any(run.answered for run in found.runs) else ""
    more = "; faint lines are the other rounds" if any(run.samples and run is not found.first(run.side) for run in found.runs) else ""
    charts = "".join(f'<div class="{name}">{_chart(found, width)}</div>' for name, width in (("wide-chart", _WIDE), ("narrow", _NARROW)))
    return f'<figure class="wide">{charts}<figcaption>{keys}<br>PSS, summed over all processes{asked}{more}.</figcaption></figure>'


def _chart(found: Found, width: int) -> str:
    runs = [run for run in found.runs if run.samples]
    most = max(s.pss_bytes for run in runs for s in run.samples) / _MIB
    chart = Chart((0, max(run.samples[-1].at_s for run in runs) or 1.0), (0, most * 1.05), title="Memory of all processes together (PSS)", x_title="seconds since start", y_title="MiB",
                  width=width, height=_HEIGHT)
    main = {id(found.first(side)) for side in (STOCK, ASHLAR)}
    for run in sorted(runs, key=lambda r: id(r) in main):
        points = thinned([(s.at_s, s.pss_bytes / _MIB) for s in run.samples], _POINTS)
        chart.line(points, _SERIES[run.side], faint=id(run) not in main, dashed=run.side == STOCK, tip=f"{NAMES[run.side]}, round {run.round}")
        if run.answered and id(run) in main:
            chart.vertical(run.window_s[0], _SERIES[run.side])
    return chart.render()
