"""What grew between two profiles, and which growth looks like a leak.

What the latest full collection before the later profile found live was live; what was made since may be garbage that was not found
yet. The image has that collection's number and each sample the number of those before it, so the two are told apart exactly. A leak
is named by four things, each with its own doubt, from the samples that were found live alone:

1. *It grew.* A sample that lives in both profiles tells nothing about growth and carries no error into it. Of the others, those
   only in the later one and found live stand against those only in the earlier one; were the line steady, each side would be as
   likely (a sign test). Lines are corrected for being many (Holm's method, over the lines that have enough samples to show anything
   at all: Tarone).
2. *What was made early is still there.* Samples made between the first profile and the full collection: those of a line that churns
   were nearly all made shortly before it, those of a leak in all parts of the interval. The interval is measured in collections.
3. *It goes on.* Those of a line that grew once, such as code that was loaded or a cache that is full now, were all made early.
4. *What was old stayed.* The older half of the samples alive in the first profile: those that are gone in the second speak against
   a leak. Of a cache at its limit the old ones die.

The score of a leak is the product of four numbers from 0 to 1: one minus the p of the first, and of 2 to 4 the posterior
probability with Jeffreys's prior. It orders the lines, and its bounds were set by simulation. It is not the probability of a leak: a p is
not the probability that a line is steady, and the four are not independent.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from ashlar_lab.errors import BadInput
from ashlar_lab.heap import export, profile, tables
from ashlar_lab.heap.amounts import Estimate, memory
from ashlar_lab.heap.profile import Amounts, Frame, Group, Profile
from ashlar_lab.report.tables import Table

LEAK, POSSIBLE, GREW, SHRANK, STEADY, UNDECIDED = "leak", "possible leak", "grew", "shrank", "steady", "undecided"
_LEAK_SCORE = 0.95
_POSSIBLE_SCORE = 0.5
_ERROR_RATE = 0.05
_SHARE_EARLY_MIN = 0.2
_SHARE_LATE_MIN = 0.15
_SHARE_STAYED_MIN = 0.7
_COLLECTIONS_MIN = 4
_FEW_SAMPLES = 6
_CERTAIN_ERRORS = 4.0  # a growth of so many standard errors is one, however few the samples: of objects larger than the period


@dataclass(frozen=True)
class Evidence:
    """What the samples of one line say. `growth` is that of live bytes. `came` and `went` are the live samples that only the second and
    only the first profile has; `early` and `late` are those that came and were found live by the last full collection, made in the first
    and the second half of the interval before it; `old` were old in the first profile, and `old_gone` of them are gone."""

    growth: Estimate
    objects: Estimate
    came: int
    went: int
    early: int
    late: int
    old: int
    old_gone: int

    @property
    def found_live(self) -> int:
        """Of those that came."""
        return self.early + self.late

    @property
    def grew_p(self) -> float:
        """One-sided, of a steady line having done at least this."""
        return _sign_p(self.came, self.went)

    @property
    def kept_p(self) -> float:
        """The same with what is known to live in place of all that came."""
        return _sign_p(self.found_live, self.went)

    @property
    def shrank_p(self) -> float:
        return _sign_p(self.went, self.came)


def _sign_p(more: int, less: int) -> float:
    """That of so many tosses of a coin at least `more` fall on its side."""
    return float(stats.binom.sf(more - 1, more + less, 0.5)) if more else 1.0


@dataclass(frozen=True)
class Line:
    """One line of Ruby in both profiles, judged. `score` is that of a leak, from 0 to 1; `stack` is how it is mostly reached."""

    frame: Frame
    classes: tuple[str, ...]
    before: Amounts
    after: Amounts
    evidence: Evidence
    judged: str
    score: float
    why: str
    stack: tuple[Frame, ...]

    @property
    def allocated_bytes(self) -> float:
        """Between the two."""
        return max(self.after.allocated_bytes.value - self.before.allocated_bytes.value, 0.0)


@dataclass(frozen=True)
class Difference:
    """Two profiles, the earlier one first. `same_process` says whether they are of one process: only then can a leak be told."""

    before: Profile
    after: Profile
    same_process: bool
    lines: tuple[Line, ...]

    @property
    def seconds(self) -> float:
        return (self.after.image.taken_ns - self.before.image.taken_ns) / 1e9

    @property
    def collections(self) -> int:
        return self.after.image.collections - self.before.image.collections

    @property
    def full_collections(self) -> int | None:
        """None where a writer did not tell them from major ones."""
        before, after = self.before.image.full_collections, self.after.image.full_collections
        return None if before is None or after is None else after - before

    @property
    def span(self) -> int:
        """Collections from the first profile to the last full one before the second."""
        return self.after.image.full_collection - max(self.before.image.collections, self.before.image.full_collection)

    @property
    def blind(self) -> str:
        """Why no leak can be told apart here; empty where it can."""
        if not self.same_process:
            return "the profiles are of two processes, so no line is called a leak"
        if self.span <= 0:
            return ("no full collection lies between the profiles: what grew may be garbage that was not found yet, so no line is called a leak; "
                    "take them farther apart, or call GC.start before the second")
        if self.span < _COLLECTIONS_MIN:
            some = "one collection lies" if self.span == 1 else f"{self.span} collections lie"
            return (f"only {some} between the first profile and the last full collection: too few to say what stays, so no line "
                    f"is called a leak; take them farther apart")
        return ""

    @property
    def leaks(self) -> list[Line]:
        return [line for line in self.lines if line.judged == LEAK]


def compare(before: Profile, after: Profile) -> Difference:
    a, b = before.image, after.image
    same = (a.pid, a.started_ns) == (b.pid, b.started_ns)
    if same and a.taken_ns > b.taken_ns:
        raise BadInput(f"{a.source} was taken after {b.source}, of the same process; give the earlier one first")
    if same and a.sampling_since_ns != b.sampling_since_ns:
        raise BadInput(f"sampling was stopped and begun again between {a.source} and {b.source}; take both without a pause")
    empty = Difference(before, after, same, ())
    return Difference(before, after, same, tuple(_lines(empty)))


def _lines(d: Difference) -> list[Line]:
    groups = [{g.name: g for g in profile.by_line(p)} for p in (d.before, d.after)]
    samples = [_samples_by_line(p) for p in (d.before, d.after)]
    names = list({**groups[1], **groups[0]})
    evidence = [_evidence(d, *(some.get(name, np.zeros(0, int)) for some in samples)) for name in names]
    corrected = [_corrected(tests) for tests in ([(e.grew_p, e.came + e.went) for e in evidence], [(e.shrank_p, e.came + e.went) for e in evidence],
                                                 [(e.kept_p, e.found_live + e.went) for e in evidence])]
    lines = [_line(d, groups[0].get(name), groups[1].get(name), *rest) for name, *rest in zip(names, evidence, *corrected)]
    order = {LEAK: 0, POSSIBLE: 1, GREW: 2, UNDECIDED: 2, STEADY: 3, SHRANK: 3}
    return sorted(lines, key=lambda line: (order[line.judged], -line.evidence.growth.value, line.frame.place))


def _corrected(tests: Sequence[tuple[float, int]]) -> list[float]:
    """Holm's p values. Tests whose few samples could never show anything count for nothing (Tarone 1990)."""
    floors = sorted((0.5 ** n for _, n in tests if n))
    counted = next((k for k in range(1, len(floors) + 1) if sum(f <= _ERROR_RATE / k for f in floors) <= k), max(len(floors), 1))
    able = [i for i, (_, n) in enumerate(tests) if n and 0.5 ** n <= _ERROR_RATE / counted]
    found, largest = [1.0] * len(tests), 0.0
    for rank, i in enumerate(sorted(able, key=lambda i: tests[i][0])):
        largest = max(largest, min(1.0, tests[i][0] * (len(able) - rank)))
        found[i] = largest
    return found


def _samples_by_line(p: Profile) -> dict[Frame, np.ndarray]:
    """Indexes into the live samples."""
    names = [Frame(s.frame.label, s.frame.path, s.frame.line) for s in p.sites]
    found: dict[Frame, list[int]] = {}
    for i, site in enumerate(p.live.site):
        found.setdefault(names[site], []).append(i)
    return {name: np.array(indexes) for name, indexes in found.items()}


def _evidence(d: Difference, first: np.ndarray, second: np.ndarray) -> Evidence:
    """`first` and `second` are the line's samples in each profile."""
    if d.same_process:
        shared = Counter(_keys(d.before, first)) & Counter(_keys(d.after, second))
        went, came = _beyond(d.before, first, shared), _beyond(d.after, second, shared)
    else:
        went, came = first, second
    made = d.after.live.collection[came]
    full = d.after.image.full_collection
    early, found_live = int((made < full - d.span / 2).sum()) if d.span > 0 else 0, int((made < full).sum())
    old = _older_half(d.before, first)
    sums = [p.live.total(chosen) for p, chosen in ((d.after, came), (d.before, went))]
    objects, size = (Estimate(sums[0][i].value - sums[1][i].value, sums[0][i].variance + sums[1][i].variance) for i in (0, 1))
    return Evidence(size, objects, len(came), len(went), early, found_live - early, len(old), len(np.intersect1d(old, went)))


def _older_half(p: Profile, chosen: np.ndarray) -> np.ndarray:
    """The samples that survived most collections, at least one."""
    ages = p.ages()[chosen]
    return chosen[(ages >= max(1.0, float(np.median(ages))))] if len(chosen) else chosen


def _keys(p: Profile, chosen: np.ndarray) -> list[tuple]:
    """What stays the same of a sample as long as it lives; its address may not."""
    live = p.live
    return [(p.sites[live.site[i]].key, int(live.collection[i]), int(live.size_bytes[i]), int(live.made_ms[i])) for i in chosen]


def _beyond(p: Profile, chosen: np.ndarray, shared: Counter) -> np.ndarray:
    """Those that the other profile does not have."""
    left, found = Counter(shared), []
    for i, key in zip(chosen, _keys(p, chosen)):
        if left[key]:
            left[key] -= 1
        else:
            found.append(i)
    return np.array(found, int)


def _line(d: Difference, before: Group | None, after: Group | None, e: Evidence, *p: float) -> Line:
    members, nothing = after or before, profile.total(())
    widest = max(members.sites, key=lambda s: (s.amounts.live_bytes.value, s.amounts.allocated_bytes.value))
    return Line(members.name, tuple(members.classes()), before.amounts if before else nothing, after.amounts if after else nothing, e,
                *_judge(d, e, *p), widest.stack)


def _judge(d: Difference, e: Evidence, grew_p: float, shrank_p: float, kept_p: float) -> tuple[str, float, str]:
    certain = e.growth.value >= _CERTAIN_ERRORS * math.sqrt(e.growth.variance) and e.growth.value > 0
    if not certain and (grew_p > _ERROR_RATE or e.growth.value <= 0):
        if shrank_p <= _ERROR_RATE and e.growth.value < 0:
            return SHRANK, 0.0, f"{e.went} samples went and {e.came} came"
        return STEADY, 0.0, "not more than sampling makes of a steady line"
    grew = f"grew by {memory(e.growth.value)}: {e.came} live samples came and {e.went} went"
    if d.blind:
        return (UNDECIDED if d.same_process else GREW), 0.0, grew
    unknown = e.came - e.found_live
    if e.found_live < _FEW_SAMPLES:
        since = f"; {unknown} of them since the last full collection, so they may be garbage" if unknown else ""
        return GREW, 0.0, f"{grew}{since}; too few to say whether it goes on"
    persists = _above(e.early, e.late, _SHARE_EARLY_MIN)
    goes_on = _above(e.late, e.early, _SHARE_LATE_MIN)
    stays = _above(e.old - e.old_gone, e.old_gone, _SHARE_STAYED_MIN) if e.old >= 3 else 1.0
    score = (1 - kept_p) * persists * goes_on * stays
    halves = f"the last full collection found {e.found_live} of them live, {e.early} made in the first half of the interval and {e.late} in the second"
    old = f"; {e.old_gone} of {e.old} that were old before are gone" if e.old else ""
    if score >= _POSSIBLE_SCORE:
        return (LEAK if score >= _LEAK_SCORE else POSSIBLE), score, f"{grew}, and they stay: {halves}{old}"
    if 1 - kept_p < min(persists, goes_on, stays):
        return GREW, score, f"{grew}; {halves}: not more than sampling makes of a steady line"
    if persists <= min(goes_on, stays):
        return GREW, score, f"{grew}, but what it makes dies: {halves}{old}"
    if goes_on <= stays:
        return GREW, score, f"{grew}, and then stopped: {halves}"
    return GREW, score, f"{grew}, but its old objects die: {e.old_gone} of {e.old} are gone"


def _above(yes: int, no: int, share: float) -> float:
    """The posterior probability that the share of yes is above this one."""
    return float(stats.beta.sf(share, yes + 0.5, no + 0.5))


def written(score: float) -> str:
    """Two digits, rounded down, as the bounds are lower ones."""
    return f"{math.floor(100 * score + 1e-9) / 100:.2f}"


# ── In words and tables ────────────────────────────────────────────────────

def facts(d: Difference) -> list[str]:
    a, b = d.before.image, d.after.image
    if d.same_process:
        first = (f"{b.program}: process {b.pid}, {d.seconds:,.0f} s, {d.collections:,} collections{'' if d.full_collections is None else f' ({d.full_collections:,} full)'} and "
                 f"{memory(max(b.numbers.get('allocated_bytes', 0) - a.numbers.get('allocated_bytes', 0), 0))} allocated between the profiles")
    else:
        first = f"two processes: {a.program} ({a.pid}) and {b.program} ({b.pid})"
    grown = profile.total(s.amounts for s in d.after.sites).live_bytes.value - profile.total(s.amounts for s in d.before.sites).live_bytes.value
    found = [first, f"live bytes by samples {'grew' if grown >= 0 else 'shrank'} by {memory(abs(grown))}, to {tables.estimate(d.after.total.live_bytes)}"]
    named = [line for line in d.lines if line.judged in (LEAK, POSSIBLE)]
    for line in named:
        found.append(f"{line.judged}, score {written(line.score)} of 1: {tables.title(line.frame)} ({', '.join(line.classes[:2])}) {line.why}")
    if not named and not d.blind:
        found.append("no line looks like a leak")
    return found


def warnings(d: Difference) -> list[str]:
    blind = d.blind
    lost = sum(p.image.samples_lost for p in (d.before, d.after))
    return ([blind[0].upper() + blind[1:]] if blind else []) + ([f"{lost:,} samples found no place in the tables: they are in no figure"] if lost else [])


def table(d: Difference, lines: int) -> Table:
    """The lines that changed, likely leaks first."""
    changed = [line for line in d.lines if line.judged != STEADY]
    rows = [(tables.title(line.frame), ", ".join(line.classes[:2]), line.judged, written(line.score) if line.judged in (LEAK, POSSIBLE) else "–",
             memory(line.evidence.growth.value, line.evidence.growth.error), tables.number(line.evidence.objects), memory(line.after.live_bytes.value), memory(line.allocated_bytes),
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
                   **export.estimate("live_bytes", line.after.live_bytes), "allocated_between_bytes": round(line.allocated_bytes, 1),
                   "samples_came": line.evidence.came, "samples_went": line.evidence.went, "stack": [export.frame(f) for f in line.stack]} for line in d.lines],
    })
