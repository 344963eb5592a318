"""The short form for the terminal: verdict, warnings, the first tables. Plain Markdown in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from ashlar_lab.report import units
from ashlar_lab.report.markdown import table_text
from ashlar_lab.report.page import Page
from ashlar_lab.report.tables import Table


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
        top = max(1.0, *(v for *_, v in shown))
        programs, variants = max(len(p) for p, *_ in shown), max(len(v) for _, v, _ in shown)
        lines.append(f"{units.title(metric, False)}, {experiment.baseline} = 1.00 (│)")
        mark = round(_BAR_WIDTH / top)
        for program, variant, value in shown:
            full = "█" * round(_BAR_WIDTH * value / top)
            bar = full.ljust(_BAR_WIDTH)
            bar = bar[:mark - 1] + ("│" if len(full) < mark else "▌") + bar[mark:]
            lines.append(f"  {program.ljust(programs)}  {variant.ljust(variants)}  {bar} {value:.2f}")
    return lines


def show(page: Page, tables: int = 4) -> None:
    """Print to standard output; colours and boxes only on a terminal."""
    chosen = page.headline()
    shown, picture = (chosen, []) if chosen else (page.tables[:tables], bars(page))
    shown = [*shown, *(t for t in page.tables if t.name == "machines" and t not in shown)]
    if not sys.stdout.isatty():
        print("\n".join(f"- {s}" for s in page.verdict))
        print_tables(shown)
        if picture:
            print("\n" + "\n".join(picture))
        for warning in page.warnings:
            print(f"\nwarning: {warning}")
        return
    console = Console()
    for sentence in page.verdict:
        console.print(f"[bold green]•[/] {sentence}", highlight=False)
    print_tables(shown, console)
    if picture:
        console.print("\n".join(picture), highlight=False, markup=False)
    for warning in page.warnings:
        console.print(f"[yellow]warning:[/] {warning}", highlight=False)


def print_tables(tables: Sequence[Table], console: Console | None = None) -> None:
    """Boxes on a console; without one plain Markdown. What a cell says is never taken for markup."""
    for table in tables:
        if console is None:
            print(f"\n{table.title}\n\n{table_text(table)}" + (f"\n\n{table.note}" if table.note else ""))
            continue
        drawn = RichTable(title=table.title, title_justify="left", caption=Text(table.note) if table.note else None, caption_justify="left")
        for i, head in enumerate(table.head):
            is_text = i == 0 or "path" in head
            drawn.add_column(head, justify="left" if is_text else "right", overflow="fold")
        for row in table.rows:
            drawn.add_row(*map(Text, row))
        console.print(drawn)
