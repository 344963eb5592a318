"""What was found as tables of text, ready for the terminal and the page."""

from collections import Counter
from collections.abc import Sequence

from ashlar import amounts
from ashlar.shared import kinds, written
from ashlar.shared.kinds import Amount
from ashlar.shared.process import PAGE_BYTES
from ashlar.shared.tree import Findings, Member
from ashlar.tables import Table

COLUMNS_MAX = 6


def facts(found: Findings) -> list[str]:
    """What a tree has, and why its workers have memory of their own, a sentence each."""
    first, forked = found.members[0], found.forked
    pss = amounts.memory(sum(m.pss_bytes for m in found.members))
    count = len(found.members)
    sentences = [f"{first.name} ({first.pid})" + (f" and {count - 1} other process{'es' if count > 2 else ''}" if count > 1 else "") + f": PSS {pss} together"]
    if not forked:
        return [*sentences, "no other process of this tree was forked with this heap, so there is nothing to compare"]
    whole = _mean([m.total for m in forked])
    by_group = _mean_by_group(forked)
    largest = sorted(by_group, key=lambda g: -by_group[g].dirty)[:3]
    sentences.append(f"a forked process shares {amounts.memory(whole.shared)} of the {amounts.memory(whole.resident)} that it has in memory and has written "
                     f"{amounts.memory(whole.dirty)} of its own, in the mean; most of that: " + ", ".join(f"{g} {amounts.memory(by_group[g].dirty)}" for g in largest))
    return sentences


def tables(found: Findings, lines: int = 20) -> list[Table]:
    made = [_processes(found), _by_group(found)]
    if len(found.forked) > 1:
        made.append(_each(found.forked))
    made.append(_detail(found, lines))
    if found.forked:
        made += [_causes(found.forked), _counted("types", "Cells that live and were written", "type", [m.written.types for m in found.forked], lines),
                 _counted("classes", "Classes of the objects, structs and data of C among them", "class", [m.written.classes for m in found.forked], lines)]
    return [t for t in made if t.rows]


def _processes(found: Findings) -> Table:
    rows = [(str(m.pid), m.name, str(m.parent) if m.parent else "–",
             *map(_memory, (m.rss_bytes, m.pss_bytes, m.total.shared, m.total.dirty, m.total.clean, m.total.swapped))) for m in found.members]
    return Table("processes", "Processes", ("PID", "name", "forked by", "RSS", "PSS", "shared", "private dirty", "private clean", "swapped"), tuple(rows))


def _by_group(found: Findings) -> Table:
    first, forked = kinds.by_group(found.members[0].amounts), _mean_by_group(found.forked)
    head = ("", "first: shared", "private dirty")
    rows = [(group, _memory(first[group].shared), _memory(first[group].dirty)) for group in kinds.GROUPS]
    total = sum(first.values(), Amount())
    rows.append(("all", _memory(total.shared), _memory(total.dirty)))
    if forked:
        head += ("forked: shared", "private dirty", "of what it has")
        whole = sum(forked.values(), Amount())
        rows = [(*row, _memory(a.shared), _memory(a.dirty), _percent(a.dirty, a.resident)) for row, a in zip(rows, (*forked.values(), whole))]
    note = "Forked ones in the mean. Shared is what another process has as well; private dirty is memory that no other has."
    return Table("kinds", "By kind", head, tuple(row for row in rows if set(row[1:]) != {"–"}), note if forked else "")


def _each(forked: Sequence[Member]) -> Table:
    shown = forked[:COLUMNS_MAX]
    each = [kinds.by_group(m.amounts) for m in shown]
    rows = [(group, *(_share(e[group].dirty, e[group].resident) for e in each)) for group in kinds.GROUPS]
    rows.append(("all", *(_share(m.total.dirty, m.total.resident) for m in shown)))
    note = f"{len(forked) - len(shown)} more are in --form json." if len(forked) > len(shown) else ""
    return Table("each", "Private dirty in each forked process, and its share", ("", *(str(m.pid) for m in shown)), tuple(r for r in rows if set(r[1:]) != {"–"}), note)


def _detail(found: Findings, lines: int) -> Table:
    """Cells by width, payloads by class, table by table; without forked processes of the first one."""
    of = found.forked or found.members[:1]
    names = {name for m in of for name in m.amounts}
    mean = {name: _mean([m.amounts.get(name, Amount()) for m in of]) for name in names if kinds.group_of(name) in ("cells", "payloads", "tables")}
    order = sorted(mean, key=lambda n: (-mean[n].dirty, -mean[n].shared, n))
    rows = [(n, _memory(mean[n].shared), _memory(mean[n].dirty), _percent(mean[n].dirty, mean[n].resident)) for n in order[:lines]]
    left = len(order) - len(rows)
    return Table("detail", "Cells by width, payloads by class, tables", ("", "shared", "private dirty", "of what it has"), tuple(rows),
                 f"{left} smaller ones are left out; --lines {len(order)} shows all." if left else "")


def _causes(forked: Sequence[Member]) -> Table:
    def mean(cause: str, field: str) -> float:
        return PAGE_BYTES * sum(getattr(m.written.causes.get(cause, written.Cause()), field) for m in forked) / len(forked)

    found = sorted((c for c in written.CAUSES if mean(c, "pages")), key=lambda c: -mean(c, "pages"))
    rows = [(c, *(_memory(mean(c, field)) for field in ("pages", "alone", "new"))) for c in found]
    pages = PAGE_BYTES * sum(m.written.pages for m in forked) / len(forked)
    return Table("written", "What was written on a forked process's own pages", ("", "pages with it", "with nothing else", "the parent has no such page"), tuple(rows),
                 f"{_memory(pages)} of pages in the mean, compared word by word with the parent's. A page may be in several rows.")


def _counted(name: str, title: str, of: str, each: Sequence[dict[str, int]], lines: int) -> Table:
    counts = Counter()
    for found in each:
        counts.update({what: count / len(each) for what, count in found.items()})
    rows = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    note = f"{len(rows) - lines} more are left out; --lines {len(rows)} shows all." if len(rows) > lines else ""
    return Table(name, title, (of, "cells"), tuple((what, f"{count:,.0f}" if count >= 1 else "below 1") for what, count in rows[:lines]), note)


# ── Arithmetic and words ───────────────────────────────────────────────────

def _mean(found: Sequence[Amount]) -> Amount:
    return sum(found, Amount()) / len(found)


def _mean_by_group(members: Sequence[Member]) -> dict[str, Amount]:
    each = [kinds.by_group(m.amounts) for m in members]
    return {group: _mean([amounts[group] for amounts in each]) for group in kinds.GROUPS} if each else {}


def _memory(size_bytes: float) -> str:
    return amounts.memory(size_bytes) if round(size_bytes) else "–"


def _percent(part: float, whole: float) -> str:
    return amounts.percent(part, whole) if part else "–"


def _share(part: float, whole: float) -> str:
    return f"{_memory(part)} ({_percent(part, whole)})" if round(part) else "–"
