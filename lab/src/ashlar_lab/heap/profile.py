"""The profile as a model: sites with their stacks and figures, live samples, and sums by line, class, age and width."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from ashlar_lab.errors import BadInput
from ashlar_lab.heap import amounts
from ashlar_lab.heap.amounts import Estimate
from ashlar_lab.heap.image import AGES, Image

CELL, PAYLOAD = "cell", "payload"
_AGE_FLOORS = (0, 1, 2, 4, 8, 16, 32, 64)
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


@dataclass(frozen=True)
class Live:
    """The live samples, as arrays of one length: which site (an index into the profile's), how many collections there had been when
    each was made, its bytes, when it was made, and what it adds to estimates."""

    site: np.ndarray
    collection: np.ndarray
    size_bytes: np.ndarray
    made_ms: np.ndarray
    objects: np.ndarray
    bytes: np.ndarray
    objects_variance: np.ndarray
    bytes_variance: np.ndarray

    def __len__(self) -> int:
        return len(self.site)

    def total(self, chosen=slice(None)) -> tuple[Estimate, Estimate]:
        """Objects and bytes of some of them."""
        return (Estimate(float(self.objects[chosen].sum()), float(self.objects_variance[chosen].sum())),
                Estimate(float(self.bytes[chosen].sum()), float(self.bytes_variance[chosen].sum())))


@dataclass(frozen=True)
class Profile:
    """An image's samples, resolved."""

    image: Image
    sites: tuple[Site, ...]
    live: Live

    @property
    def total(self) -> Amounts:
        return total(s.amounts for s in self.sites)

    def ages(self) -> np.ndarray:
        """Collections that each live sample has survived."""
        return np.maximum(self.image.collections - self.live.collection.astype(np.int64), 0)


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
    live = _live(image)
    frames = _frames(image)
    objects_variance = np.bincount(live.site, live.objects_variance, len(image.sites))
    bytes_variance = np.bincount(live.site, live.bytes_variance, len(image.sites))
    stacks = {at: _stack(image, frames, at) for at in set(image.sites["stack"].tolist())}
    classes = {at: image.string(at) for at in set(image.sites["class"].tolist())}
    columns = zip(*(image.sites[name].tolist() for name in ("stack", "class", "kind", "width")))
    figures = _amounts(image, objects_variance, bytes_variance)
    sites = [Site((Frame(NO_ROOM, "", 0),) if i < _SITES_OF_OVERFLOW else stacks[stack], classes[name], PAYLOAD if kind else CELL, width, found)
             for i, ((stack, name, kind, width), found) in enumerate(zip(columns, figures))]
    return Profile(image, tuple(sites), live)


def _live(image: Image) -> Live:
    samples = image.samples[image.samples["address"] != 0]
    size = np.maximum(samples["bytes"].astype(float), 1.0)
    p = amounts.probability(size, image.period_bytes)
    objects_variance, bytes_variance = amounts.variances(size, image.period_bytes)
    return Live(samples["site"].astype(np.int64), samples["collection"], samples["bytes"], samples["made_ms"], 1 / p, size / p,
                objects_variance, bytes_variance)


def _frames(image: Image) -> list[tuple[str, str, int]]:
    found = []
    for entry in image.frames:
        known = bool(entry["known"])
        label = image.string(int(entry["label"])) if known else ""
        path = image.string(int(entry["path"])) if known else ""
        found.append((label or NOT_RUBY, path, int(entry["first_line"])))
    return found


def _stack(image: Image, frames, at: int) -> tuple[Frame, ...]:
    found = []
    for number, line in image.stack(at):
        label, path, first_line = frames[number]
        found.append(Frame(label, path, line, first_line))
    return tuple(found)


def _amounts(image: Image, live_objects_variance: np.ndarray, live_bytes_variance: np.ndarray) -> list[Amounts]:
    """Of each site. Payloads of one site have many sizes, which the image has of the live ones only: no sample adds more than period² to the
    variance of bytes, whatever its size, and that of objects is taken as if all were equal."""
    period, entries = image.period_bytes, image.sites
    n, objects = entries["allocated_samples"].astype(float), entries["allocated_objects"]
    equal = np.maximum(objects ** 2 / np.maximum(n, 1.0) - objects, 0.0)
    of_objects, of_bytes = amounts.variances(np.maximum(entries["width"], 1), period)
    is_cell = entries["width"] > 0
    of_objects, of_bytes = np.where(is_cell, n * of_objects, equal), np.where(is_cell, n * of_bytes, n * period ** 2)
    pairs = [(entries["live_bytes"], live_bytes_variance), (entries["live_objects"], live_objects_variance),
             (entries["allocated_bytes"], of_bytes), (objects, of_objects)]
    estimates = [[Estimate(v, e) for v, e in zip(value.tolist(), variance.tolist())] for value, variance in pairs]
    return [Amounts(*four, live, made, tuple(died)) for four, live, made, died in
            zip(zip(*estimates), entries["live_samples"].tolist(), entries["allocated_samples"].tolist(), entries["died"].tolist())]


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
    bins, died = age_bins(profile.ages()), profile.total.died
    return [Row(name, int((bins == i).sum()), *profile.live.total(bins == i), died[i]) for i, name in enumerate(AGES)]


def age_bins(ages: np.ndarray) -> np.ndarray:
    return np.searchsorted(_AGE_FLOORS, ages, side="right") - 1


def payloads_by_size(profile: Profile) -> list[Row]:
    """Live payloads by powers of two of their bytes."""
    is_payload = np.array([s.kind == PAYLOAD for s in profile.sites], bool)[profile.live.site] if len(profile.live) else np.zeros(0, bool)
    power = np.ceil(np.log2(np.maximum(profile.live.size_bytes.astype(float), 1.0))).astype(int)
    rows = []
    for exponent in sorted(set(power[is_payload].tolist())):
        chosen = is_payload & (power == exponent)
        rows.append(Row(f"up to {amounts.setting(2 ** exponent)}", int(chosen.sum()), *profile.live.total(chosen)))
    return rows
