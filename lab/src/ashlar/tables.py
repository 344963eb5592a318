"""A table of text, and what is said around it: Markdown in a pipe, columns as wide as they may be on a terminal."""

import os
import shutil
import sys
from collections.abc import Sequence
from itertools import zip_longest
from typing import NamedTuple

from ashlar.said import markdown, markdown_cell, one_line, say, visible

_BOLD, _GREEN, _YELLOW, _PLAIN = "\x1b[1m", "\x1b[1;32m", "\x1b[33m", "\x1b[0m"
_NARROWEST = 8


class Table(NamedTuple):
    """A heading row and body rows; the first column is a label, and those with "path" in their heading are text too; the others are right-aligned."""

    name: str
    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    group: str = ""  # the headline that asks for it, where that is not its name

    @property
    def asked_by(self) -> str:
        return self.group or self.name

    def is_text(self, column: int) -> bool:
        return column == 0 or "path" in self.head[column]


def table_text(table: Table) -> str:
    """A Markdown table padded so that it also reads as plain text."""
    cells = [[markdown_cell(c) for c in row] for row in (table.head, *table.rows)]
    widths = [max(3, *(len(row[i]) for row in cells)) for i in range(len(table.head))]
    lines = ["| " + " | ".join(c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths))) + " |" for row in cells]
    lines.insert(1, "|" + "|".join("-" * (w + 2) if i == 0 else "-" * (w + 1) + ":" for i, w in enumerate(widths)) + "|")
    return "\n".join(lines)


def drawn(table: Table, width: int) -> str:
    """Columns for a terminal of this width: the widest ones are folded until all fit, if they can."""
    cells = [[one_line(c) for c in row] for row in (table.head, *table.rows)]
    widths = [max(1, *(len(row[i]) for row in cells)) for i in range(len(table.head))]
    while sum(widths) + 2 * len(widths) - 2 > width and max(widths) > _NARROWEST:
        widths[widths.index(max(widths))] -= 1
    lines = [f"{_BOLD}{visible(table.title)}{_PLAIN}"] if table.title else []
    for row in cells if any(cells[0]) else cells[1:]:
        pieces = [[c[at:at + w] for at in range(0, max(len(c), 1), w)] for c, w in zip(row, widths)]
        for line in zip_longest(*pieces, fillvalue=""):
            lines.append("  ".join(c.ljust(w) if table.is_text(i) else c.rjust(w) for i, (c, w) in enumerate(zip(line, widths))).rstrip())
        if row is cells[0]:
            lines.append("  ".join("─" * w for w in widths))
    return "\n".join([*lines, *([visible(table.note)] if table.note else [])])


def _coloured(colour: str, text: str) -> str:
    """In this colour, unless its reader wants none (https://no-color.org)."""
    return text if os.environ.get("NO_COLOR") else f"{colour}{text}{_PLAIN}"


def show_tables(tables: Sequence[Table], *, error: bool = False) -> None:
    """To standard output, or with `error` to standard error; drawn only on a terminal."""
    if (sys.stderr if error else sys.stdout).isatty():
        say("\n\n".join(["", *(drawn(t, shutil.get_terminal_size().columns) for t in tables)])[1:], error=error, raw=True)
        return
    for table in tables:
        parts = (markdown(table.title), table_text(table) if table.rows else "", markdown(table.note))
        say("\n" + "\n\n".join(part for part in parts if part), error=error)


def show_parts(sentences: Sequence[str], tables: Sequence[Table], warnings: Sequence[str], picture: Sequence[str] = ()) -> None:
    """What is said first, the tables, lines of a picture, the warnings."""
    on_terminal = sys.stdout.isatty()
    say("\n".join(f"{_coloured(_GREEN, '•')} {visible(s)}" if on_terminal else f"- {markdown(s)}" for s in sentences), raw=True)
    show_tables(tables)
    if picture:
        say("\n" + "\n".join(picture))
    for warning in warnings:
        say(f"{_coloured(_YELLOW, 'warning:')} {visible(warning)}" if on_terminal else f"\nwarning: {markdown(warning)}", raw=True)
