"""Profiles and differences in the terminal; plain Markdown in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rich.console import Console

from ashlar_lab.heap import tables
from ashlar_lab.heap.profile import Profile
from ashlar_lab.report.tables import Table
from ashlar_lab.report.terminal import print_tables


def show(found: Profile, lines: int) -> None:
    show_parts(tables.facts(found), tables.tables(found, lines), tables.warnings(found))


def show_parts(sentences: Sequence[str], shown: Sequence[Table], warnings: Sequence[str]) -> None:
    if not sys.stdout.isatty():
        print("\n".join(f"- {s}" for s in sentences))
        print_tables(shown)
        for warning in warnings:
            print(f"\nwarning: {warning}")
        return
    console = Console()
    for sentence in sentences:
        console.print(f"• {sentence}", style="bold" if sentence is sentences[0] else "", markup=False, highlight=False)
    print_tables(shown, console)
    for warning in warnings:
        console.print(f"warning: {warning}", style="yellow", markup=False, highlight=False)
