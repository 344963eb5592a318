"""One self-contained page: no request leaves it, light and dark, narrow and wide."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ashlar_lab import said
from ashlar_lab.heap import amounts
from ashlar_lab.report import palette
from ashlar_lab.shared import kinds, tables
from ashlar_lab.shared.tree import Findings, Member

_FOLDER = Path(__file__).parent
_STYLE = _FOLDER.parent / "report" / "page.css"
_LINES = 1000
# A colour for each of `kinds.GROUPS`: those of the charts, and four more.
_LIGHT = palette.LIGHT["series"] + ("#5a3d28", "#7c8c14", "#5b6675", "#a9b2bd")
_DARK = palette.DARK["series"] + ("#c9a58a", "#d3e06a", "#9aa6b5", "#5b6675")


@dataclass(frozen=True)
class Part:
    """A part of a bar: `colour` is its number, `percent` its length."""

    title: str
    colour: int
    percent: float
    dirty: bool


def render(found: Findings) -> str:
    groups = [g for g in kinds.GROUPS if any(kinds.by_group(m.amounts)[g].resident for m in found.members)]
    most = max(m.total.resident for m in found.members)
    bars = [(m, _bar(m, groups, most)) for m in found.members]
    environment = said.pages(_FOLDER)
    return environment.get_template("page.html.j2").render(
        title=f"What the processes of {found.members[0].name} share", facts=tables.facts(found), warnings=found.warnings, tables=tables.tables(found, _LINES),
        style=_STYLE.read_text(), colours=_colours(), bars=bars, legend=[(g, kinds.GROUPS.index(g)) for g in groups])


def _bar(member: Member, groups: list[str], most: float) -> list[Part]:
    """What is shared first, then what is the process's own."""
    by_group = kinds.by_group(member.amounts)
    return [Part(f"{group}, {word}: {amounts.memory(size)}", kinds.GROUPS.index(group), 100 * size / most, word != "shared")
            for word in ("shared", "private dirty", "private clean") for group in groups
            if (size := getattr(by_group[group], word.rpartition(" ")[2])) >= 1]


def _colours() -> str:
    def variables(colours: tuple[str, ...]) -> str:
        return ":root{" + "".join(f"--part{i}:{colour};" for i, colour in enumerate(colours)) + "}"
    return variables(_LIGHT) + "@media (prefers-color-scheme:dark){" + variables(_DARK) + "}"
