"""A profile as a page: flame graphs and tables."""

from __future__ import annotations

from dataclasses import dataclass, field

from ashlar import amounts, page, palette
from ashlar.bars import Bar, draw
from ashlar.heap import profile, tables
from ashlar.heap.profile import NOT_RUBY, Frame, Profile
from ashlar.tables import Table

_ROWS_MAX = 200
# What the colours of a flame graph mean.
_ORIGINS = {"program": ("the program", 215), "gem": ("gems", 28), "ruby": ("Ruby's library", 155), "native": ("in C", 190), "class": ("class of what was allocated", 245)}
MEASURES = ("live", "allocated")


def render(found: Profile) -> str:
    graphs = [page.section(f"Who called what allocates: {measure} bytes", page.figure(draw(graph(found, measure), f"Flame graph of {measure} bytes"))) for measure in MEASURES]
    legend = "".join(f'<span class="key"><i style="background:hsl({hue} 45% 50% / .38)"></i>{meaning}</span>' for meaning, hue in _ORIGINS.values())
    meant = f'<p class="facts">{legend}<br>Callers above, what they call below, as wide as their bytes. To zoom and search, open what --form pprof or collapsed writes in speedscope.</p>'
    return page.page(f"Heap of {found.image.program}",
                     [page.facts(tables.facts(found)), page.warnings(tables.warnings(found)), *graphs, meant, *map(page.table, [*tables.tables(found, _ROWS_MAX), _counted(found)])],
                     style=palette.css_of_reader() + ".key{display:inline-block;margin-right:14px}.key i{display:inline-block;width:12px;height:12px;margin-right:5px}")


@dataclass
class _Node:
    """Sums over everything below it."""

    bytes: float = 0.0
    variance: float = 0.0
    samples: int = 0
    below: dict[tuple[str, str, str], _Node] = field(default_factory=dict)

    def add(self, site: profile.Site, measure: str) -> None:
        found, samples = (site.amounts.live_bytes, site.amounts.live_samples) if measure == "live" else (site.amounts.allocated_bytes, site.amounts.allocated_samples)
        self.bytes, self.variance, self.samples = self.bytes + found.value, self.variance + found.variance, self.samples + samples

    def bar(self, label: str, place: str, origin: str, measure: str, whole: float) -> Bar:
        shown = sorted(self.below.items(), key=lambda item: -item[1].bytes)
        error = amounts.Estimate(self.bytes, self.variance).error
        told = (f"{label}{' — ' + place if place else ''}: {amounts.memory(self.bytes, error)} {measure} ({amounts.percent(self.bytes, whole, 1)} of all, "
                f"{self.samples:,} sample{'' if self.samples == 1 else 's'})")
        return Bar(label, told, self.bytes, [node.bar(*name, measure, whole) for name, node in shown], _ORIGINS[origin][1])


def graph(found: Profile, measure: str) -> Bar:
    """The tree of calls, outermost frames first; classes are the leaves."""
    root = _Node()
    for site in found.sites:
        root.add(site, measure)
        node = root
        frames = [(f.label, f.place if f.path else "", f.origin) for f in reversed(site.stack or (Frame(NOT_RUBY, "", 0),))]
        for name in [*frames, (site.class_shown, _of_width(site), "class")]:
            node = node.below.setdefault(name, _Node())
            node.add(site, measure)
    return root.bar("everything", "", "native", measure, root.bytes)


def _of_width(site: profile.Site) -> str:
    return f"cells of {site.width} bytes" if site.width else "payloads" if site.kind == profile.PAYLOAD else "cells"


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
