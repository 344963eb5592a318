"""Everything that is text, as Markdown that can be pasted."""

from __future__ import annotations

from ashlar_lab.report.page import Page
from ashlar_lab.report.tables import Table
from ashlar_lab.said import markdown, markdown_cell


def render(page: Page) -> str:
    parts = [f"# {markdown(page.title)}", ""]
    if page.note:
        parts += [markdown(page.note), ""]
    parts += [f"- {markdown(sentence)}" for sentence in page.verdict]
    if page.warnings:
        parts += ["", "## Read this first", ""] + [f"- {markdown(w)}" for w in page.warnings]
    for table in page.tables:
        parts += ["", f"## {markdown(table.title)}", "", table_text(table)]
        if table.note:
            parts += ["", markdown(table.note)]
    parts += ["", "## Machine", ""] + [f"- {markdown(f'{key}: {value}')}" for key, value in page.machine]
    return "\n".join(parts) + "\n"


def table_text(table: Table) -> str:
    """A Markdown table padded so that it also reads as plain text."""
    cells = [[markdown_cell(c) for c in row] for row in (table.head, *table.rows)]
    widths = [max(3, *(len(row[i]) for row in cells)) for i in range(len(table.head))]
    lines = []
    for number, row in enumerate(cells):
        padded = [c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths))]
        lines.append("| " + " | ".join(padded) + " |")
        if number == 0:
            lines.append("|" + "|".join("-" * (w + 2) if i == 0 else "-" * (w + 1) + ":" for i, w in enumerate(widths)) + "|")
    return "\n".join(lines)
