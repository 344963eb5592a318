"""The short form for the terminal: verdict, warnings, the first tables. Plain Markdown in a pipe."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.table import Table as RichTable

from ashlar_lab.report.markdown import table_text
from ashlar_lab.report.page import Page


def show(page: Page, tables: int = 4) -> None:
    """Print to standard output; colours and boxes only on a terminal."""
    shown = [t for t in page.tables if t.name in page.experiment.headline] or page.tables[:tables]
    if not sys.stdout.isatty():
        print("\n".join(f"- {s}" for s in page.verdict))
        for table in shown:
            print(f"\n{table.title}\n\n{table_text(table)}")
        for warning in page.warnings:
            print(f"\nwarning: {warning}")
        return
    console = Console()
    for sentence in page.verdict:
        console.print(f"[bold green]•[/] {sentence}", highlight=False)
    for table in shown:
        drawn = RichTable(title=table.title, title_justify="left", caption=table.note, caption_justify="left")
        for i, head in enumerate(table.head):
            drawn.add_column(head, justify="left" if i == 0 else "right", overflow="fold")
        for row in table.rows:
            drawn.add_row(*row)
        console.print(drawn)
    for warning in page.warnings:
        console.print(f"[yellow]warning:[/] {warning}", highlight=False)
