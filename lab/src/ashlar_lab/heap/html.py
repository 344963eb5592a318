"""One self-contained page of a profile: flame graphs and tables, no request leaves it, light and dark."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from ashlar_lab import said
from ashlar_lab.heap import amounts, profile, tables
from ashlar_lab.heap.profile import NOT_RUBY, Frame, Group, Profile
from ashlar_lab.report import palette
from ashlar_lab.report.tables import Table

_FOLDER = Path(__file__).parent
_PAGE_CSS = _FOLDER.parent / "report" / "page.css"
_ROWS_MAX = 200
# What the colours of the flame graph mean, each a colour of the lab's charts.
ORIGINS = (("program", "the program", 0), ("gem", "gems", 1), ("ruby", "Ruby's library", 2), ("native", "in C", 4), ("class", "class of what was allocated", 7))


def render(found: Profile) -> str:
    environment = said.pages(_FOLDER)
    facts = tables.facts(found)
    return environment.get_template("page.html.j2").render(
        title=found.image.program, facts=facts, warnings=tables.warnings(found), origins=ORIGINS,
        style=_PAGE_CSS.read_text() + (_FOLDER / "page.css").read_text(), colours=_colours(), script=(_FOLDER / "flame.js").read_text(),
        graph=_embedded(graph(found)), ranked=[_lines(found), _classes(found)], others=_others(found))


def _colours() -> str:
    """The palette as CSS variables, light and dark."""
    def variables(theme: dict) -> str:
        return ":root{" + "".join(f"--{name}:{theme['series'][series]};" for name, _, series in ORIGINS) + "}"
    return variables(palette.LIGHT) + "@media (prefers-color-scheme:dark){" + variables(palette.DARK) + "}"


def _embedded(value) -> str:
    """JSON that cannot end the element it stands in."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


# ── The flame graph ────────────────────────────────────────────────────────

class _Node:
    """Figures are of everything below as well."""

    __slots__ = ("live", "allocated", "live_samples", "allocated_samples", "below")

    def __init__(self):
        self.live = self.allocated = 0.0
        self.live_samples = self.allocated_samples = 0
        self.below: dict[int, _Node] = {}

    def add(self, found: profile.Amounts) -> None:
        self.live += found.live_bytes.value
        self.allocated += found.allocated_bytes.value
        self.live_samples += found.live_samples
        self.allocated_samples += found.allocated_samples

    def rows(self) -> list:
        return [[number, round(n.live), round(n.allocated), n.live_samples, n.allocated_samples, n.rows()]
                for number, n in sorted(self.below.items(), key=lambda item: (-item[1].live, -item[1].allocated, item[0]))]


def graph(found: Profile) -> dict:
    """The tree of calls, outermost frames first, each with its live and its allocated bytes and samples; classes are the leaves.
    A node is [number of its name, live bytes, allocated bytes, live samples, allocated samples, nodes below]."""
    names: dict[tuple, int] = {}
    root = _Node()

    def child(node: _Node, label: str, place: str, origin: str) -> _Node:
        return node.below.setdefault(names.setdefault((label, place, origin), len(names)), _Node())

    for site in found.sites:
        if not (site.amounts.allocated_samples or site.amounts.live_samples):
            continue
        root.add(site.amounts)
        node = root
        for frame in reversed(site.stack or (Frame(NOT_RUBY, "", 0),)):
            node = child(node, frame.label, frame.place if frame.path else "", frame.origin)
            node.add(site.amounts)
        child(node, site.class_shown, _of_width(site), "class").add(site.amounts)
    return {"names": [list(name) for name in names], "period": found.image.period_bytes,
            "root": [-1, round(root.live), round(root.allocated), root.live_samples, root.allocated_samples, root.rows()]}


def _of_width(site: profile.Site) -> str:
    return f"cells of {site.width} bytes" if site.width else "payloads" if site.kind == profile.PAYLOAD else "cells"


# ── The tables ─────────────────────────────────────────────────────────────

@dataclass(frozen=True)
class Ranked:
    """A table whose rows are put in the order of live or of allocated bytes. A row is its cells, its title, and both figures."""

    name: str
    title: str
    head: tuple[str, ...]
    texts: int
    rows: tuple[tuple[tuple[str, ...], str, float, float], ...]
    note: str = ""


_HEAD = ("live", "live objects", "allocated", "allocated objects", "samples live of all")


def _ranked(name: str, title: str, heads: tuple[str, ...], groups: list[Group], texts) -> Ranked:
    """Those that are large by either figure."""
    largest = sorted(groups, key=lambda g: -g.amounts.allocated_bytes.value)[:_ROWS_MAX]
    chosen = list(dict.fromkeys([*(g.name for g in groups[:_ROWS_MAX]), *(g.name for g in largest)]))
    by_name = {g.name: g for g in groups}
    rows = []
    for key in chosen:
        g = by_name[key]
        shown, hint = texts(g)
        rows.append(((*shown, *tables.cells(g.amounts)), hint, round(g.amounts.live_bytes.value), round(g.amounts.allocated_bytes.value)))
    left = len(groups) - len(chosen)
    return Ranked(name, title, (*heads, *_HEAD), len(heads), tuple(rows), f"{left:,} smaller ones are left out; --form json has them." if left else "")


def _lines(found: Profile) -> Ranked:
    return _ranked("lines", "By line", ("line", "class"), profile.by_line(found), lambda g: ((tables.title(g.name), tables.classes(g)), g.name.place))


def _classes(found: Profile) -> Ranked:
    return _ranked("classes", "By class", ("class",), profile.by_class(found), lambda g: ((str(g.name),), str(g.name)))


def _others(found: Profile) -> list[Table]:
    return [t for t in tables.tables(found, 0) if t.name not in ("lines", "classes")] + [_counted(found)]


def _counted(found: Profile) -> Table:
    """What the heap itself counts, exactly."""
    numbers = found.image.numbers
    names = (("live bytes", "live_bytes"), ("in cells", "cell_bytes"), ("in payloads", "payload_bytes"), ("elsewhere", "external_bytes"),
             ("blocks of cells", "cell_block_bytes"), ("holes in them", "hole_bytes"), ("blocks of payloads", "payload_block_bytes"),
             ("spare blocks", "spare_bytes"), ("allocated so far", "allocated_bytes"))
    rows = [(title, amounts.memory(numbers[name])) for title, name in names if name in numbers]
    full = found.image.full_collections
    rows += [("collections, of them full", f"{found.image.collections:,}, {'unknown' if full is None else f'{full:,}'}")]
    return Table("counted", "Counted by the heap", ("", "exactly"), tuple(rows))
