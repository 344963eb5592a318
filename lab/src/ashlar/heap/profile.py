"""The profile as a model: sites with their stacks and figures, live samples, and sums by line, class, age and width."""

import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import cache
from typing import NamedTuple

from ashlar import amounts
from ashlar.amounts import Estimate
from ashlar.errors import BadInput
from ashlar.heap import image as images
from ashlar.heap.image import AGES, Image, Sample

CELL, PAYLOAD = "cell", "payload"
NOT_RUBY = "(not Ruby)"
NO_ROOM = "(others: the tables were full)"
_SITES_OF_OVERFLOW = 2


class Frame(NamedTuple):
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


_NOTHING = Frame(NOT_RUBY, "", 0)  # what is shown of an empty stack
_RUBY_LIBRARY = re.compile(r"/lib/(?:[^/]+/)?ruby/(?:\d[\d.]*|site_ruby/\d[\d.]*|vendor_ruby/\d[\d.]*)/")


def short_path(path: str) -> str:
    if path.startswith("<internal:"):
        return f"<internal:{short_path(path.removeprefix('<internal:'))}"
    if "/gems/" in path:
        return path.rpartition("/gems/")[2]
    library = _RUBY_LIBRARY.search(path)
    return path[library.end():] if library else path


class Sum(NamedTuple):
    """Some samples together: how many they are, and how many objects and bytes they stand for."""

    samples: int
    objects: Estimate
    bytes: Estimate


def added(parts: Iterable[Sum]) -> Sum:
    samples, count, of_count, size, of_size = 0, 0.0, 0.0, 0.0, 0.0
    for own, objects, held in parts:
        samples, count, of_count, size, of_size = samples + own, count + objects.value, of_count + objects.variance, size + held.value, of_size + held.variance
    return Sum(samples, Estimate(count, of_count), Estimate(size, of_size))


NONE = added(())


class Amounts(NamedTuple):
    """What samples say about some sites together. `died` counts the dead samples by the collections they survived, as in `AGES`."""

    live: Sum
    allocated: Sum
    died: tuple[int, ...]

    @property
    def sampled(self) -> bool:
        return bool(self.allocated.samples or self.live.samples)

    @property
    def weight(self) -> tuple[float, float]:
        """What is compared where most is looked for."""
        return self.live.bytes.value, self.allocated.bytes.value


def total(parts: Iterable[Amounts]) -> Amounts:
    live, allocated, died = zip(*parts, (NONE, NONE, (0,) * len(AGES)))
    return Amounts(added(live), added(allocated), tuple(map(sum, zip(*died))))


class Site(NamedTuple):
    """One stack, class, kind and width. `stack` has the innermost frame first; empty, nothing of Ruby's was running."""

    stack: tuple[Frame, ...]
    class_name: str
    kind: str
    width: int
    amounts: Amounts

    @property
    def line(self) -> Frame:
        """The innermost frame with a line of Ruby, wherever its method begins; otherwise the innermost one."""
        return next((f for f in self.stack if f.path), self.stack_shown[0])._replace(first_line=0)

    @property
    def key(self) -> tuple:
        """The same site in two images. The class of payloads is left out: it may be found out between them."""
        return (tuple((f.label, f.path, f.line) for f in self.stack), self.class_name if self.kind == CELL else "", self.kind, self.width)

    @property
    def class_shown(self) -> str:
        return self.class_name or ("(buffers)" if self.kind == PAYLOAD else "(unknown)")

    @property
    def stack_shown(self) -> tuple[Frame, ...]:
        return self.stack or (_NOTHING,)


class Profile(NamedTuple):
    """An image's samples, resolved. `weights` has what a sample of each size stands for."""

    image: Image
    sites: tuple[Site, ...]
    weights: dict[int, Sum]

    @property
    def total(self) -> Amounts:
        return total(s.amounts for s in self.sites)

    def age(self, sample: Sample) -> int:
        """Collections that a live sample has survived."""
        return max(self.image.collections - sample.collection, 0)

    def sum(self, samples: Iterable[Sample]) -> Sum:
        """Of live ones."""
        return added(self.weights[s.size_bytes] for s in samples)


def from_image(image: Image) -> Profile:
    """Raises BadInput where nothing was sampled."""
    if not image.period_bytes:
        raise BadInput(f"{image.source} has live numbers, but nothing was sampled; start the program with ASHLAR_PROFILE=FILE, "
                       'or call GC.config(profile: "on") in it; ashlar top shows the numbers')
    weights = {size: _weight(size, image.period_bytes) for size in {s.size_bytes for s in image.samples}}
    live: list[list[Sum]] = [[] for _ in image.sites]
    for sample in image.samples:
        live[sample.site].append(weights[sample.size_bytes])
    strings, frame = cache(image.string), cache(lambda number, line: _frame(image, number, line))
    stack = cache(lambda node: tuple(frame(*place) for place in image.stack(node)))
    sites = [Site((Frame(NO_ROOM, "", 0),) if i < _SITES_OF_OVERFLOW else stack(entry.stack), strings(entry.class_name), PAYLOAD if entry.kind else CELL,
                  entry.width, _amounts(entry, image.period_bytes, added(own))) for i, (entry, own) in enumerate(zip(image.sites, live))]
    return Profile(image, tuple(sites), weights)


def _weight(size_bytes: int, period_bytes: int) -> Sum:
    size = max(float(size_bytes), 1.0)
    p, (of_objects, of_bytes) = amounts.probability(size, period_bytes), amounts.variances(size, period_bytes)
    return Sum(1, Estimate(1 / p, of_objects), Estimate(size / p, of_bytes))


def _frame(image: Image, number: int, line: int) -> Frame:
    label, path, first_line, known = image.frames[number]
    return Frame(image.string(label) or NOT_RUBY, image.string(path), line, first_line) if known else Frame(NOT_RUBY, "", line, first_line)


def _amounts(entry: images.Site, period: int, live: Sum) -> Amounts:
    """Of a site. Payloads of one site have many sizes, which the image has of the live ones only: no sample adds more than period² to the
    variance of bytes, whatever its size, and that of objects is taken as if all were equal."""
    n, objects = entry.allocated_samples, entry.allocated_objects
    if entry.width:
        of_objects, of_bytes = (n * one for one in amounts.variances(entry.width, period))
    else:
        of_objects, of_bytes = max(objects ** 2 / max(n, 1) - objects, 0.0), n * period ** 2
    return Amounts(Sum(entry.live_samples, Estimate(entry.live_objects, live.objects.variance), Estimate(entry.live_bytes, live.bytes.variance)),
                   Sum(n, Estimate(objects, of_objects), Estimate(entry.allocated_bytes, of_bytes)), entry.died)


# ── Sums ───────────────────────────────────────────────────────────────────

class Group(NamedTuple):
    """Sites that have something in common: a line, a class, a width."""

    name: Hashable
    sites: tuple[Site, ...]
    amounts: Amounts

    def classes(self) -> list[str]:
        """Their classes, those with most live bytes, then most allocated, first."""
        found: dict[str, list[Amounts]] = {}
        for site in self.sites:
            found.setdefault(site.class_shown, []).append(site.amounts)
        return sorted(found, key=lambda name: total(found[name]).weight, reverse=True)


def group(sites: Sequence[Site], key: Callable[[Site], Hashable]) -> list[Group]:
    """Sums over the sites with the same key, most live bytes first."""
    found: dict[Hashable, list[Site]] = {}
    for site in sites:
        if site.amounts.sampled:
            found.setdefault(key(site), []).append(site)
    groups = [Group(name, tuple(members), total(s.amounts for s in members)) for name, members in found.items()]
    return sorted(groups, key=lambda g: (-g.amounts.live.bytes.value, -g.amounts.allocated.bytes.value, str(g.name)))


def by_line(profile: Profile) -> list[Group]:
    """By the innermost line of Ruby; the name of each group is its `Frame`."""
    return group(profile.sites, lambda s: s.line)


def by_class(profile: Profile) -> list[Group]:
    return group(profile.sites, lambda s: s.class_shown)


def by_width(profile: Profile) -> list[Group]:
    """By the width of the cell in bytes, narrow ones first; None stands for payloads."""
    groups = group(profile.sites, lambda s: s.width if s.kind == CELL else None)
    return sorted(groups, key=lambda g: (g.name is None, g.name or 0))


class Row(NamedTuple):
    """Live samples of one age, or payloads of one range of sizes. `died` are the samples that died at that age."""

    name: str
    live: Sum
    died: int = 0


def by_age(profile: Profile) -> list[Row]:
    """Live samples by the collections they survived, and how many died having survived as many."""
    bins: list[list[Sample]] = [[] for _ in AGES]
    for sample in profile.image.samples:
        bins[min(profile.age(sample).bit_length(), len(AGES) - 1)].append(sample)
    return [Row(name, profile.sum(own), died) for name, own, died in zip(AGES, bins, profile.total.died)]


def payloads_by_size(profile: Profile) -> list[Row]:
    """Live payloads by powers of two of their bytes."""
    by_power: dict[int, list[Sample]] = {}
    for sample in profile.image.samples:
        if profile.sites[sample.site].kind == PAYLOAD:
            by_power.setdefault((max(sample.size_bytes, 1) - 1).bit_length(), []).append(sample)
    return [Row(f"up to {amounts.setting(2 ** power)}", profile.sum(own)) for power, own in sorted(by_power.items())]
