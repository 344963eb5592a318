"""A profile as a page: flame graphs and tables."""

from ashlar import amounts, page, palette
from ashlar.bars import DEEP, Bar, draw
from ashlar.heap import profile, tables
from ashlar.heap.profile import Profile, Sum
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


def graph(found: Profile, measure: str) -> Bar:
    """The tree of calls, outermost frames first, as deep as it is drawn; classes are the leaves."""
    whole = getattr(found.total, measure).bytes.value

    def bar(label: str, place: str, origin: str, depth: int, sites: list[tuple[list, Sum]]) -> Bar:
        size, below = profile.added(own for _, own in sites), {}
        for names, own in sites:
            if depth < min(len(names), DEEP):
                below.setdefault(names[depth], []).append((names, own))
        told = (f"{label}{' — ' + place if place else ''}: {amounts.memory(size.bytes.value, size.bytes.error)} {measure} "
                f"({amounts.percent(size.bytes.value, whole, 1)} of all, {size.samples:,} sample{'' if size.samples == 1 else 's'})")
        bars = [bar(*name, depth + 1, some) for name, some in below.items()]
        return Bar(label, told, size.bytes.value, sorted(bars, key=lambda b: -b.size), _ORIGINS[origin][1])

    return bar("everything", "", "native", 0, [(_names(site), getattr(site.amounts, measure)) for site in found.sites])


def _names(site: profile.Site) -> list[tuple[str, str, str]]:
    """What leads to a site, outermost frame first: label, place and origin of each."""
    return [*((f.label, f.place if f.path else "", f.origin) for f in reversed(site.stack_shown)), (site.class_shown, _of_width(site), "class")]


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
