"""The tables on a terminal; plain Markdown in a pipe."""

from __future__ import annotations

import sys

from ashlar_lab.heapdump.content import Content
from ashlar_lab.report.markdown import table_text
from ashlar_lab.report.terminal import show_parts
from ashlar_lab.said import markdown as line
from ashlar_lab.said import say


def chosen(content: Content) -> list:
    """The tables to show: those that were asked for, or all."""
    return [t for t in (content.subjects or content.tables) if t.rows or t.note]


def markdown(content: Content, tables) -> str:
    parts = [f"# {line(content.title)}", line(content.facts), "\n".join(f"- {line(s)}" for s in content.verdict), *(f"warning: {line(w)}" for w in content.warnings)]
    for table in tables:
        parts += [f"## {line(table.title)}", table_text(table) if table.rows else "", line(table.note)]
    return "\n\n".join(part for part in parts if part) + "\n"


def show(content: Content) -> None:
    if sys.stdout.isatty():
        show_parts(content.verdict, chosen(content), content.warnings)
    else:
        say(markdown(content, chosen(content)), end="")
