"""Everything that is text, as Markdown that can be pasted."""

from __future__ import annotations

from ashlar.said import markdown
from ashlar.tables import table_text
from ashlar_lab.report.page import Page


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
