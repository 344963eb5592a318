"""What a tree of processes shares, as a page: a bar for each process, and the tables."""

from ashlar import amounts, page, palette
from ashlar.said import xml
from ashlar.shared import kinds, tables
from ashlar.shared.tree import Findings, Member

_LINES = 1000
# A colour for each of `kinds.GROUPS`: those of the charts, and five more.
_LIGHT = palette.LIGHT["series"] + ("#5a3d28", "#7c8c14", "#5b6675", "#a9b2bd", "#e3a6c8")
_DARK = palette.DARK["series"] + ("#c9a58a", "#d3e06a", "#9aa6b5", "#5b6675", "#8f3f6f")
_STYLE = """
.bar{display:flex;height:26px;min-width:240px;border-radius:3px;overflow:hidden}
.part{min-width:1px;border-right:1px solid var(--paper)}
.part.shared{opacity:.35}
.key{display:inline-block;margin:0 14px 2px 0;white-space:nowrap}.key i{display:inline-block;width:10px;height:10px;margin-right:5px}"""


def render(found: Findings) -> str:
    groups = [g for g in kinds.GROUPS if any(kinds.by_group(m.amounts)[g].resident for m in found.members)]
    most = max(m.total.resident for m in found.members)
    key = "".join(f'<span class="key"><i style="background:var(--part{kinds.GROUPS.index(g)})"></i>{xml(g)}</span>' for g in groups)
    bars = "".join(_bar(m, groups, most) for m in found.members)
    drawing = f'<figure class="wide">{bars}<figcaption>{key}<br>Faint is shared with another process, full is the process\'s own; point at a part to read it.</figcaption></figure>'
    return page.page(f"What the processes of {found.members[0].name} share",
                     [page.verdict(tables.facts(found)), page.warnings(found.warnings), page.section("Memory of each process", drawing),
                      *map(page.table, tables.tables(found, _LINES))], style=_colours() + _STYLE)


def _bar(member: Member, groups: list[str], most: float) -> str:
    """What is shared first, then what is the process's own."""
    by_group, parts = kinds.by_group(member.amounts), []
    for word, field in (("shared", "shared"), ("private dirty", "dirty"), ("private clean", "clean")):
        for group in groups:
            if (size := getattr(by_group[group], field)) >= 1:
                parts.append(f'<div class="part{" shared" if field == "shared" else ""}" style="background:var(--part{kinds.GROUPS.index(group)});'
                             f'width:{100 * size / most:.3f}%" title="{xml(f"{group}, {word}: {amounts.memory(size)}")}"></div>')
    forked = f", forked by {member.parent}" if member.parent else ""
    return page.facts([f"{member.name} ({member.pid}){forked}"]) + f'<div class="bar" role="img" aria-label="Memory of process {member.pid}">{"".join(parts)}</div>'


def _colours() -> str:
    def variables(colours: tuple[str, ...]) -> str:
        return ":root{" + "".join(f"--part{i}:{colour};" for i, colour in enumerate(colours)) + "}"
    return variables(_LIGHT) + "@media (prefers-color-scheme:dark){" + variables(_DARK) + "}"
