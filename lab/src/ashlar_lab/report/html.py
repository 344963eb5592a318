"""One self-contained page: no request leaves it, light and dark, narrow and wide."""

from __future__ import annotations

from pathlib import Path

from ashlar_lab import said
from ashlar_lab.report import palette, units
from ashlar_lab.report.page import Page
from ashlar_lab.store.run import OK

_FOLDER = Path(__file__).parent


_LISTED_MAX = 3000


def _listed(page: Page) -> list:
    """The runs of the list, at most so many: failures first, then from the first block on; in their order."""
    if len(page.runs) <= _LISTED_MAX:
        return list(page.runs)
    chosen = sorted(range(len(page.runs)), key=lambda i: (page.runs[i].state == OK, i))[:_LISTED_MAX]
    return [page.runs[i] for i in sorted(chosen)]


def render(page: Page) -> str:
    environment = said.pages(_FOLDER)
    environment.filters["number"] = units.number
    environment.filters["unit_title"] = units.title
    e = page.experiment
    run_metrics = list(dict.fromkeys([e.time_metric, "wall_s", "cpu_s", e.space_metric, "peak_rss_mib", "mean_mib"]))
    run_metrics += [m for m in ("others_cpu_s",) if any(m in r.metrics for r in page.runs)]
    listed, several = _listed(page), bool(page.analysis.machines)
    return environment.get_template("page.html.j2").render(
        page=page, listed=listed, several=several, style=(_FOLDER / "page.css").read_text(), chart_css=palette.css_of_reader(), run_metrics=run_metrics,
        drawings=[(f, f.chart.render()) for f in page.figures],
    )
