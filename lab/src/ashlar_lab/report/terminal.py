"""The short form for the terminal: verdict, warnings, the first tables. Plain Markdown in a pipe."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.table import Table as RichTable

from ashlar_lab.report.markdown import table_text
from ashlar_lab.report.page import Page


def show(page: Page, tables: int = 4) -> None:
    """Print to standard output; colours and boxes only on a terminal."""
    if not sys.stdout.isatty():
        print("\n".join(f"- {s}" for s in page.verdict))
        for table in page.tables[:tables]:
            print(f"\n{table.title}\n\n{table_text(table)}")
        for warning in page.warnings:
            print(f"\nwarning: {warning}")
        return
    console = Console()
    for sentence in page.verdict:
        console.print(f"[bold green]•[/] {sentence}", highlight=False)
    for table in page.tables[:tables]:
        shown = RichTable(title=table.title, title_justify="left", caption=table.note, caption_justify="left")
        for i, head in enumerate(table.head):
            shown.add_column(head, justify="left" if i == 0 else "right", overflow="fold")
        for row in table.rows:
            shown.add_row(*row)
        console.print(shown)
    for warning in page.warnings:
        console.print(f"[yellow]warning:[/] {warning}", highlight=False)
