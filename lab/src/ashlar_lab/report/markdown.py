"""Everything that is text, as Markdown that can be pasted."""

from collections.abc import Sequence

from ashlar.said import markdown
from ashlar.tables import Table, table_text
from ashlar_lab.report.page import Page


def render(page: Page) -> str:
    said = "\n".join(f"- {markdown(sentence)}" for sentence in page.verdict)
    return "\n\n".join([*_head(page, page.note), said, *_listed("Read this first", page.warnings), *_tables(page.tables), *_machine(page)]) + "\n"


def record(page: Page) -> str:
    """The tables the experiment calls its headline, by how much the baseline differs from itself, the warnings, and the machine: what is kept
    with a project."""
    shown = list(page.headline() or page.tables[:3])
    shown += [t for t in page.tables if t.name == "noise" and t not in shown]
    return "\n\n".join([*_head(page, page.facts, page.note), *_tables(shown, titled=len(shown) > 1), *_listed("Read with it", page.warnings), *_machine(page)]) + "\n"


def _head(page: Page, *told: str) -> list[str]:
    return [f"# {markdown(page.title)}", *(markdown(t) for t in told if t)]


def _tables(tables: Sequence[Table], titled: bool = True) -> list[str]:
    parts = [part for t in tables for part in (f"## {markdown(t.title)}" if titled else "", table_text(t), markdown(t.note))]
    return [part for part in parts if part]


def _listed(title: str, sentences: Sequence[str]) -> list[str]:
    return [f"## {title}", "\n".join(f"- {markdown(s)}" for s in sentences)] if sentences else []


def _machine(page: Page) -> list[str]:
    return _listed("Machine", [f"{key}: {value}" for key, value in page.machine])
