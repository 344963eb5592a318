"""A profile as tables of text, ready for the terminal and the page."""

import math
from collections.abc import Callable

from ashlar import amounts
from ashlar.heap import profile
from ashlar.heap.profile import Amounts, Frame, Group, Profile, Row, Sum
from ashlar.tables import Table

_HEAD = ("live", "live objects", "allocated", "allocated objects", "samples live of all")


def facts(found: Profile) -> list[str]:
    """What the profile is of and how far it can be believed, a sentence each."""
    image, total = found.image, found.total
    counted = image.numbers.get("live_bytes", 0)
    return [
        f"{image.program}: process {image.pid}, {image.ruby or 'Ruby'}, taken {amounts.moment(image.taken_ns / 1e9)}, {image.origin}",
        f"{total.allocated.samples:,} samples, one for about every {amounts.setting(image.period_bytes)} allocated; {total.live.samples:,} of them are live. "
        f"Each figure is an estimate, ± half its 95 % interval; where no sample stands for it (–), it is below {amounts.memory(-math.log(0.05) * image.period_bytes)}",
        f"live: {estimate(total.live.bytes)} by samples" + (f", {amounts.memory(counted)} by the heap's own count" if counted else ""),
    ]


def warnings(found: Profile) -> list[str]:
    image, said = found.image, []
    if image.samples_lost:
        said.append(f"{image.samples_lost:,} samples found no place in the tables: what they stand for is in no figure of live memory")
    full = sum(s.amounts.allocated.samples for s in found.sites if s.stack and s.stack[0].label == profile.NO_ROOM)
    if full:
        said.append(f"{full:,} samples are of lines for which the tables had no room; they are one line here")
    if image.torn:
        said.append("the program ended in the middle of a change to the profile: a sample or two may be wrong")
    if found.total.live.samples < 20:
        said.append(f"{found.total.live.samples} live samples say little; ASHLAR_PROFILE_BYTES=64K takes eight times as many as 512K")
    return said


def estimate(e: amounts.Estimate) -> str:
    """Bytes; a dash where no sample stands for them, for that is not nothing."""
    return amounts.memory(e.value, e.error) if e.value or e.variance else "–"


def number(e: amounts.Estimate) -> str:
    return amounts.count(e.value, e.error) if e.value or e.variance else "–"


def cells(found: Amounts) -> tuple[str, ...]:
    return (*_sum(found.live), *_sum(found.allocated), f"{found.live.samples:,} / {found.allocated.samples:,}")


def _sum(some: Sum) -> tuple[str, str]:
    return estimate(some.bytes), number(some.objects)


def tables(found: Profile, lines: int = 20) -> list[Table]:
    """By line, class, age and width; the first two with so many rows at most."""
    made = [_first("lines", ("line", "class"), profile.by_line(found), lines, lambda g: (title(g.name), classes(g))),
            _first("classes", ("class",), profile.by_class(found), lines, lambda g: (str(g.name),)), _by_age(found), _by_width(found)]
    sizes = tuple((r.name, *_row(r)) for r in profile.payloads_by_size(found))
    return made + ([Table("payloads", "Live payloads by size", ("size", "live", "live objects", "samples live"), sizes)] if sizes else [])


def _first(name: str, head: tuple[str, ...], groups: list[Group], lines: int, named: Callable[[Group], tuple[str, ...]]) -> Table:
    """So many groups at most, and the sums of the others."""
    rows, left = tuple((*named(g), *cells(g.amounts)) for g in groups[:lines]), groups[lines:]
    others = profile.total(g.amounts for g in left)
    return Table(name, f"By {head[0]}", (*head, *_HEAD), rows, f"{len(left):,} more {head[0] if len(left) == 1 else name} with {estimate(others.live.bytes)} live and "
                 f"{estimate(others.allocated.bytes)} allocated; --lines {len(groups)} shows all, --form json has them too." if left else "")


def title(frame: Frame) -> str:
    """`app.rb:12 Cache#put`."""
    return f"{frame.short_place} {frame.label}" if frame.path else frame.label


def classes(g: Group) -> str:
    names = g.classes()
    return ", ".join(names[:2]) + (f" and {len(names) - 2} more" if len(names) > 2 else "")


def _by_age(found: Profile) -> Table:
    rows = profile.by_age(found)
    dead = sum(r.died for r in rows)
    return Table("ages", "By age", ("collections survived", "live", "live objects", "samples live", "samples that died at this age"),
                 tuple((r.name, *_row(r), f"{r.died:,} ({100 * r.died / dead:.0f} %)" if dead else "0") for r in rows))


def _by_width(found: Profile) -> Table:
    rows = [("payloads" if g.name is None else f"cells of {g.name} bytes" if g.name else "cells of any width", *cells(g.amounts))
            for g in profile.by_width(found)]
    return Table("widths", "By width", ("", *_HEAD), tuple(rows))


def _row(r: Row) -> tuple[str, ...]:
    return (*_sum(r.live), f"{r.live.samples:,}")
