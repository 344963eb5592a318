"""A profile in the terminal; plain Markdown in a pipe."""

from __future__ import annotations

from ashlar_lab.heap import tables
from ashlar_lab.heap.profile import Profile
from ashlar_lab.report.terminal import show_parts


def show(found: Profile, lines: int) -> None:
    show_parts(tables.facts(found), tables.tables(found, lines), tables.warnings(found))
