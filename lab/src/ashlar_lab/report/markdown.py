"""Everything that is text, as Markdown that can be pasted."""

from __future__ import annotations

from ashlar_lab.report.page import Page
from ashlar_lab.report.tables import Table


def render(page: Page) -> str:
    parts = [f"# {page.title}", ""]
    if page.note:
        parts += [page.note, ""]
    parts += [f"- {sentence}" for sentence in page.verdict]
    if page.warnings:
        parts += ["", "## Read this first", ""] + [f"- {w}" for w in page.warnings]
    for table in page.tables:
        parts += ["", f"## {table.title}", "", table_text(table)]
        if table.note:
            parts += ["", table.note]
    parts += ["", "## Machine", ""] + [f"- {key}: {value}" for key, value in page.machine]
    return "\n".join(parts) + "\n"


def table_text(table: Table) -> str:
    """A Markdown table padded so that it also reads as plain text."""
    cells = [[c.replace("|", "\\|") for c in row] for row in (table.head, *table.rows)]
    widths = [max(3, *(len(row[i]) for row in cells)) for i in range(len(table.head))]
    lines = []
    for number, row in enumerate(cells):
        padded = [c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths))]
        lines.append("| " + " | ".join(padded) + " |")
        if number == 0:
            lines.append("|" + "|".join("-" * (w + 2) if i == 0 else "-" * (w + 1) + ":" for i, w in enumerate(widths)) + "|")
    return "\n".join(lines)
