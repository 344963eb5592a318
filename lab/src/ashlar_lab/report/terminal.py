"""The short form for the terminal: verdict, warnings, the first tables. Plain Markdown in a pipe."""

import math

from ashlar.tables import show_parts
from ashlar_lab.report import units
from ashlar_lab.report.page import Page

_BAR_WIDTH = 36


def bars(page: Page) -> list[str]:
    """A small picture of the ratios to the baseline: one bar per program and variant, the mark stands at 1.00."""
    experiment, analysis = page.experiment, page.analysis
    if experiment.sweeps() or len(experiment.variants) < 2:
        return []
    lines = []
    for metric in dict.fromkeys((experiment.time_metric, experiment.space_metric)):
        shown = [(r.program, r.variant, r.ratio.value) for r in analysis.ratios if r.metric == metric]
        shown += [("geometric mean", s.variant, s.ratio.value) for s in analysis.summaries if s.metric == metric]
        if not shown:
            continue
        top = max([1.0, *(v for *_, v in shown if math.isfinite(v))])
        programs, variants = max(len(p) for p, *_ in shown), max(len(v) for _, v, _ in shown)
        lines.append(f"{units.title(metric, False)}, {experiment.baseline} = 1.00 (│)")
        mark = max(1, round(_BAR_WIDTH / top))
        for program, variant, value in shown:
            full = "█" * (_BAR_WIDTH if value > top else round(_BAR_WIDTH * value / top) if value >= 0 else 0)  # infinite or no number at the ends
            bar = full.ljust(_BAR_WIDTH)
            bar = bar[:mark - 1] + ("│" if len(full) < mark else "▌") + bar[mark:]
            lines.append(f"  {program.ljust(programs)}  {variant.ljust(variants)}  {bar} {units.ratio(value)}")
    return lines


def show(page: Page) -> None:
    """Print to standard output; colours and boxes only on a terminal."""
    chosen = page.headline()
    shown, picture = (chosen, []) if chosen else (page.tables[:4], bars(page))
    shown = [*shown, *(t for t in page.tables if t.name == "machines" and t not in shown)]
    show_parts(page.verdict, shown, page.warnings, picture)
