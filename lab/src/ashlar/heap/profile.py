"""The profile as a model: sites with their stacks and figures, live samples, and sums by line, class, age and width."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ashlar import amounts
from ashlar.amounts import Estimate
from ashlar.errors import BadInput
from ashlar.heap import image as images
from ashlar.heap.image import AGES, Image

CELL, PAYLOAD = "cell", "payload"
NOT_RUBY = "(not Ruby)"
NO_ROOM = "(others: the table of sites was full)"
_SITES_OF_OVERFLOW = 2


@dataclass(frozen=True)
class Frame:
    """One frame of a stack: what runs, where it stands, and the line that was running. `path` is empty for code that is not Ruby's."""

    label: str
    path: str
    line: int
    first_line: int = 0

    @property
    def place(self) -> str:
        """`path:line`, or the label where there is no path."""
        return f"{self.path}:{self.line}" if self.path else self.label

    @property
    def short_place(self) -> str:
        """The same with what comes before the gem's name or Ruby's library left out."""
        return f"{short_path(self.path)}:{self.line}" if self.path else self.label

    @property
    def origin(self) -> str:
        """`program`, `gem`, `ruby` (its library and what is built in), or `native`."""
        if not self.path:
            return "native"
        if "/gems/" in self.path:
            return "gem"
        return "ruby" if self.path.startswith("<internal:") or _RUBY_LIBRARY.search(self.path) else "program"


_RUBY_LIBRARY = re.compile(r"/lib/ruby/(?:\d[\d.]*|site_ruby/\d[\d.]*|vendor_ruby/\d[\d.]*)/")


def short_path(path: str) -> str:
    if path.startswith("<internal:"):
        return f"<internal:{short_path(path.removeprefix('<internal:'))}"
    if "/gems/" in path:
        return path.rpartition("/gems/")[2]
    library = _RUBY_LIBRARY.search(path)
    return path[library.end():] if library else path


@dataclass(frozen=True)
class Amounts:
    """What samples say about some sites together. `died` counts the dead samples by the collections they survived, as in `AGES`."""

    live_bytes: Estimate
    live_objects: Estimate
    allocated_bytes: Estimate
    allocated_objects: Estimate
    live_samples: int
    allocated_samples: int
    died: tuple[int, ...]


@dataclass(frozen=True)
class Site:
    """One stack, class, kind and width. `stack` has the innermost frame first; empty, nothing of Ruby's was running."""

    stack: tuple[Frame, ...]
    class_name: str
    kind: str
    width: int
    amounts: Amounts

    @property
    def frame(self) -> Frame:
        """The innermost frame with a line of Ruby; otherwise the innermost one."""
        return next((f for f in self.stack if f.path), self.stack[0] if self.stack else Frame(NOT_RUBY, "", 0))

    @property
    def key(self) -> tuple:
        """The same site in two images. The class of payloads is left out: it may be found out between them."""
        return (tuple((f.label, f.path, f.line) for f in self.stack), self.class_name if self.kind == CELL else "", self.kind, self.width)

    @property
    def class_shown(self) -> str:
        return self.class_name or ("(buffers)" if self.kind == PAYLOAD else "(unknown)")


class Weight(NamedTuple):
    """What a sample of one size stands for, and what it adds to the variances."""

    objects: float
    bytes: float
    objects_variance: float
    bytes_variance: float


class Live(NamedTuple):
    """A live sample: which site (an index into the profile's), how many collections there had been when it was made, its bytes, when it was
    made, and what it adds to estimates."""

    site: int
    collection: int
    size_bytes: int
    made_ms: int
    weight: Weight


def sums(samples: Iterable[Live]) -> tuple[Estimate, Estimate]:
    """Objects and bytes of some live samples."""
    objects = size = of_objects = of_bytes = 0.0
    for sample in samples:
        w = sample.weight
        objects, size, of_objects, of_bytes = objects + w.objects, size + w.bytes, of_objects + w.objects_variance, of_bytes + w.bytes_variance
    return Estimate(objects, of_objects), Estimate(size, of_bytes)


@dataclass(frozen=True)
class Profile:
    """An image's samples, resolved."""

    image: Image
    sites: tuple[Site, ...]
    live: tuple[Live, ...]

    @property
    def total(self) -> Amounts:
        return total(s.amounts for s in self.sites)

    def age(self, sample: Live) -> int:
        """Collections that a live sample has survived."""
        return max(self.image.collections - sample.collection, 0)


def total(parts: Iterable[Amounts]) -> Amounts:
    parts = list(parts)
    sums = [Estimate(sum(e.value for e in some), sum(e.variance for e in some))
            for some in ([getattr(p, name) for p in parts] for name in ("live_bytes", "live_objects", "allocated_bytes", "allocated_objects"))]
    died = tuple(map(sum, zip(*(p.died for p in parts)))) or (0,) * len(AGES)
    return Amounts(*sums, sum(p.live_samples for p in parts), sum(p.allocated_samples for p in parts), died)


def from_image(image: Image) -> Profile:
    """Raises BadInput where nothing was sampled."""
    if not image.period_bytes:
        raise BadInput(f"{image.source} has live numbers, but nothing was sampled; start the program with ASHLAR_PROFILE=FILE, "
                       'or call GC.config(profile: "on") in it; ashlar top shows the numbers')
    live, frames, classes, stacks = _live(image), _frames(image), {}, {}
    variances = [[0.0, 0.0] for _ in image.sites]
    for sample in live:
        variances[sample.site][0] += sample.weight.objects_variance
        variances[sample.site][1] += sample.weight.bytes_variance
    sites = []
    for i, (entry, variance) in enumerate(zip(image.sites, variances)):
        if entry.stack not in stacks:
            stacks[entry.stack] = tuple(Frame(*frames[number][:2], line, frames[number][2]) for number, line in image.stack(entry.stack))
        if entry.class_name not in classes:
            classes[entry.class_name] = image.string(entry.class_name)
        stack = (Frame(NO_ROOM, "", 0),) if i < _SITES_OF_OVERFLOW else stacks[entry.stack]
        sites.append(Site(stack, classes[entry.class_name], PAYLOAD if entry.kind else CELL, entry.width, _amounts(entry, image.period_bytes, *variance)))
    return Profile(image, tuple(sites), live)


def _live(image: Image) -> tuple[Live, ...]:
    weights: dict[int, Weight] = {}
    for size in {s.size_bytes for s in image.samples}:
        least = max(float(size), 1.0)
        p = amounts.probability(least, image.period_bytes)
        weights[size] = Weight(1 / p, least / p, *amounts.variances(least, image.period_bytes))
    return tuple(Live(s.site, s.collection, s.size_bytes, s.made_ms, weights[s.size_bytes]) for s in image.samples)


def _frames(image: Image) -> list[tuple[str, str, int]]:
    """Label, path and first line."""
    return [((image.string(f.label) or NOT_RUBY, image.string(f.path), f.first_line) if f.known else (NOT_RUBY, "", f.first_line)) for f in image.frames]


def _amounts(entry: images.Site, period: int, live_objects_variance: float, live_bytes_variance: float) -> Amounts:
    """Of a site. Payloads of one site have many sizes, which the image has of the live ones only: no sample adds more than period² to the
    variance of bytes, whatever its size, and that of objects is taken as if all were equal."""
    n, objects = entry.allocated_samples, entry.allocated_objects
    if entry.width:
        of_objects, of_bytes = (n * one for one in amounts.variances(entry.width, period))
    else:
        of_objects, of_bytes = max(objects ** 2 / max(n, 1) - objects, 0.0), n * period ** 2
    return Amounts(Estimate(entry.live_bytes, live_bytes_variance), Estimate(entry.live_objects, live_objects_variance), Estimate(entry.allocated_bytes, of_bytes),
                   Estimate(objects, of_objects), entry.live_samples, n, entry.died)


# ── Sums ───────────────────────────────────────────────────────────────────

@dataclass(frozen=True)
class Group:
    """Sites that have something in common: a line, a class, a width."""

    name: Hashable
    sites: tuple[Site, ...]
    amounts: Amounts

    def classes(self) -> list[str]:
        """Their classes, those with most live bytes, then most allocated, first."""
        weights: dict[str, tuple[float, float]] = {}
        for site in self.sites:
            live, allocated = weights.get(site.class_shown, (0.0, 0.0))
            weights[site.class_shown] = (live + site.amounts.live_bytes.value, allocated + site.amounts.allocated_bytes.value)
        return sorted(weights, key=lambda name: weights[name], reverse=True)


def group(sites: Sequence[Site], key: Callable[[Site], Hashable]) -> list[Group]:
    """Sums over the sites with the same key, most live bytes first."""
    found: dict[Hashable, list[Site]] = {}
    for site in sites:
        if site.amounts.allocated_samples or site.amounts.live_samples:
            found.setdefault(key(site), []).append(site)
    groups = [Group(name, tuple(members), total(s.amounts for s in members)) for name, members in found.items()]
    return sorted(groups, key=lambda g: (-g.amounts.live_bytes.value, -g.amounts.allocated_bytes.value, str(g.name)))


def by_line(profile: Profile) -> list[Group]:
    """By the innermost line of Ruby; the name of each group is its `Frame`."""
    return group(profile.sites, lambda s: Frame(s.frame.label, s.frame.path, s.frame.line))


def by_class(profile: Profile) -> list[Group]:
    return group(profile.sites, lambda s: s.class_shown)


def by_width(profile: Profile) -> list[Group]:
    """By the width of the cell in bytes, narrow ones first; None stands for payloads."""
    groups = group(profile.sites, lambda s: s.width if s.kind == CELL else None)
    return sorted(groups, key=lambda g: (g.name is None, g.name or 0))


@dataclass(frozen=True)
class Row:
    """Live samples of one age, or payloads of one range of sizes. `died` are the samples that died at that age."""

    name: str
    samples: int
    objects: Estimate
    bytes: Estimate
    died: int = 0


def by_age(profile: Profile) -> list[Row]:
    """Live samples by the collections they survived, and how many died having survived as many."""
    bins: list[list[Live]] = [[] for _ in AGES]
    for sample in profile.live:
        bins[min(profile.age(sample).bit_length(), len(AGES) - 1)].append(sample)
    return [Row(name, len(own), *sums(own), died) for name, own, died in zip(AGES, bins, profile.total.died)]


def payloads_by_size(profile: Profile) -> list[Row]:
    """Live payloads by powers of two of their bytes."""
    by_power: dict[int, list[Live]] = {}
    for sample in profile.live:
        if profile.sites[sample.site].kind == PAYLOAD:
            by_power.setdefault((max(sample.size_bytes, 1) - 1).bit_length(), []).append(sample)
    return [Row(f"up to {amounts.setting(2 ** power)}", len(own), *sums(own)) for power, own in sorted(by_power.items())]
