"""The tables on a terminal; plain Markdown in a pipe."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.markup import escape

from ashlar_lab.heapdump.content import Content
from ashlar_lab.report.markdown import table_text
from ashlar_lab.report.terminal import print_tables


def chosen(content: Content) -> list:
    """The tables to show: those that were asked for, or all."""
    return [t for t in (content.subjects or content.tables) if t.rows or t.note]


def markdown(content: Content, tables) -> str:
    parts = [f"# {content.title}", content.facts, "\n".join(f"- {s}" for s in content.verdict), *(f"warning: {w}" for w in content.warnings)]
    for table in tables:
        parts += [f"## {table.title}", table_text(table) if table.rows else "", table.note]
    return "\n\n".join(part for part in parts if part) + "\n"


def show(content: Content) -> None:
    if not sys.stdout.isatty():
        print(markdown(content, chosen(content)), end="")
        return
    console = Console()
    for sentence in content.verdict:
        console.print(f"[bold green]•[/] {escape(sentence)}", highlight=False)
    print_tables(chosen(content), console)
    for warning in content.warnings:
        console.print(f"[yellow]warning:[/] {escape(warning)}", highlight=False)
