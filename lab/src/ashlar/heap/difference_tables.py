"""What grew between two profiles, in words, as tables and as JSON."""

import math

from ashlar.amounts import memory
from ashlar.heap import export, tables
from ashlar.heap.difference import LEAK, POSSIBLE, STEADY, Difference
from ashlar.tables import Table


def written(score: float) -> str:
    """Two digits, rounded down, as the bounds are lower ones."""
    return f"{math.floor(100 * score + 1e-9) / 100:.2f}"


def facts(d: Difference) -> list[str]:
    a, b = d.before.image, d.after.image
    if d.same_process:
        first = (f"{b.program}: process {b.pid}, {d.seconds:,.0f} s, {d.collections:,} collections{'' if d.full_collections is None else f' ({d.full_collections:,} full)'} and "
                 f"{memory(max(b.numbers.get('allocated_bytes', 0) - a.numbers.get('allocated_bytes', 0), 0))} allocated between the profiles")
    else:
        first = f"two processes: {a.program} ({a.pid}) and {b.program} ({b.pid})"
    grown = d.after.total.live.bytes.value - d.before.total.live.bytes.value
    found = [first, f"live bytes by samples {'grew' if grown >= 0 else 'shrank'} by {memory(abs(grown))}, to {tables.estimate(d.after.total.live.bytes)}"]
    named = [line for line in d.lines if line.judged in (LEAK, POSSIBLE)]
    for line in named:
        found.append(f"{line.judged}, score {written(line.score)} of 1: {tables.title(line.frame)} ({', '.join(line.classes[:2])}) {line.why}")
    if not named and not d.blind:
        found.append("no line looks like a leak")
    return found


def warnings(d: Difference) -> list[str]:
    blind = d.blind
    lost = sum(p.image.samples_lost for p in (d.before, d.after))
    return ([blind[0].upper() + blind[1:]] if blind else []) + ([f"{lost:,} samples found no place in the tables: they are in no figure of live memory"] if lost else [])


def table(d: Difference, lines: int) -> Table:
    """The lines that changed, likely leaks first."""
    changed = [line for line in d.lines if line.judged != STEADY]
    rows = [(tables.title(line.frame), ", ".join(line.classes[:2]), line.judged, written(line.score) if line.judged in (LEAK, POSSIBLE) else "–",
             memory(line.evidence.growth.value, line.evidence.growth.error), tables.number(line.evidence.objects), memory(line.after.live.bytes.value), memory(line.allocated_bytes),
             f"{line.evidence.came:,} / {line.evidence.went:,}") for line in changed[:lines]]
    steady = len(d.lines) - len(changed)
    note = f"{steady:,} lines changed no more than sampling makes of a steady one." if steady else ""
    if len(changed) > lines:
        note = f"{len(changed) - lines:,} more lines changed; --lines {len(changed)} shows all. " + note
    return Table("growth", "What grew", ("line", "class", "judged", "score", "growth", "objects", "live now", "allocated between", "samples came / went"),
                 tuple(rows), note.strip())


def stacks(d: Difference) -> list[Table]:
    """Who called the lines that are named, innermost first."""
    return [Table(f"stack-{i}", f"How {line.frame.short_place} is reached, mostly", ("line", "method"),
                  tuple((f.short_place if f.path else "", f.label) for f in line.stack))
            for i, line in enumerate(d.lines) if line.judged in (LEAK, POSSIBLE)]


def as_json(d: Difference) -> str:
    return export.written({
        "format": "ashlar-heap-difference", "version": 2, "before": d.before.image.source, "after": d.after.image.source,
        "same_process": d.same_process, "seconds": round(d.seconds, 3), "collections": d.collections, "full_collections": d.full_collections,
        "warnings": warnings(d),
        "lines": [{**export.frame(line.frame), "classes": list(line.classes), "judged": line.judged, "score": round(line.score, 4), "why": line.why,
                   **export.estimate("growth_bytes", line.evidence.growth), **export.estimate("growth_objects", line.evidence.objects),
                   **export.estimate("live_bytes", line.after.live.bytes), "allocated_between_bytes": round(line.allocated_bytes, 1),
                   "samples_came": line.evidence.came, "samples_went": line.evidence.went, "stack": [export.frame(f) for f in line.stack]} for line in d.lines],
    })
