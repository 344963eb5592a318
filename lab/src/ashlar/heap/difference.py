"""What grew between two profiles, and which growth looks like a leak: docs/design/heap-profile.md says why four signs speak for one.

What the latest full collection before the later profile found live was live; what was made since may be garbage that was not found
yet. The image has that collection's number and each sample the number of those before it, so the two are told apart exactly. The score of
a leak is made from the samples that were found live alone. It is the product of four numbers: one minus the p of the line's growth, and the
posterior probabilities that what was made early is still there, that the growth goes on, and that what was old stayed.
"""

import math
from collections import defaultdict
from typing import NamedTuple

from ashlar.amounts import memory
from ashlar.errors import BadInput
from ashlar.heap import evidence, profile
from ashlar.heap.evidence import ERROR_RATE, Evidence, above, corrected, sign_p
from ashlar.heap.profile import Amounts, Frame, Group, Profile

LEAK, POSSIBLE, GREW, SHRANK, STEADY, UNDECIDED = "leak", "possible leak", "grew", "shrank", "steady", "undecided"
_LEAK_SCORE = 0.95
_POSSIBLE_SCORE = 0.5
_SHARE_EARLY_MIN = 0.2
_SHARE_LATE_MIN = 0.15
_SHARE_STAYED_MIN = 0.7
_COLLECTIONS_MIN = 4
_FEW_SAMPLES = 6
_CERTAIN_ERRORS = 4.0  # a growth of so many standard errors is one, however few the samples: of objects larger than the period


class Line(NamedTuple):
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
        return max(self.after.allocated.bytes.value - self.before.allocated.bytes.value, 0.0)


class Difference(NamedTuple):
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
    found = Difference(before, after, same, ())
    return found._replace(lines=tuple(_lines(found)))


def _lines(d: Difference) -> list[Line]:
    groups = [{g.name: g for g in profile.by_line(p)} for p in (d.before, d.after)]
    samples = [defaultdict(list), defaultdict(list)]
    for p, found in zip((d.before, d.after), samples):
        lines = [s.line for s in p.sites]
        for sample in p.image.samples:
            found[lines[sample.site]].append(sample)
    names = list({**groups[1], **groups[0]})
    told = [evidence.of_line(d.before, d.after, d.span, d.same_process, samples[0][name], samples[1][name]) for name in names]
    # How likely a steady line is to grow as much, to shrink as much, and to grow as much by what is known to live.
    pairs = ([(e.came, e.went) for e in told], [(e.went, e.came) for e in told], [(e.found_live, e.went) for e in told])
    chances = [corrected([(sign_p(more, less), more + less) for more, less in some]) for some in pairs]
    lines = [_line(d, groups[0].get(name), groups[1].get(name), *rest) for name, *rest in zip(names, told, *chances)]
    order = {LEAK: 0, POSSIBLE: 1, GREW: 2, UNDECIDED: 2, STEADY: 3, SHRANK: 3}
    return sorted(lines, key=lambda line: (order[line.judged], -line.evidence.growth.value, line.frame.place))


def _line(d: Difference, before: Group | None, after: Group | None, e: Evidence, *p: float) -> Line:
    members, nothing = after or before, profile.total(())
    widest = max(members.sites, key=lambda s: s.amounts.weight)
    return Line(members.name, tuple(members.classes()), before.amounts if before else nothing, after.amounts if after else nothing, e,
                *_judge(d, e, *p), widest.stack)


def _judge(d: Difference, e: Evidence, grew_p: float, shrank_p: float, kept_p: float) -> tuple[str, float, str]:
    certain = e.growth.value >= _CERTAIN_ERRORS * math.sqrt(e.growth.variance) and e.growth.value > 0
    if not certain and (grew_p > ERROR_RATE or e.growth.value <= 0):
        if shrank_p <= ERROR_RATE and e.growth.value < 0:
            return SHRANK, 0.0, f"{e.went} samples went and {e.came} came"
        return STEADY, 0.0, "not more than sampling makes of a steady line"
    grew = f"grew by {memory(e.growth.value)}: {e.came} live samples came and {e.went} went"
    if d.blind:
        return (UNDECIDED if d.same_process else GREW), 0.0, grew
    unknown = e.came - e.found_live
    if e.found_live < _FEW_SAMPLES:
        since = f"; {unknown} of them since the last full collection, so they may be garbage" if unknown else ""
        return GREW, 0.0, f"{grew}{since}; too few to say whether it goes on"
    persists = above(e.early, e.late, _SHARE_EARLY_MIN)
    goes_on = above(e.late, e.early, _SHARE_LATE_MIN)
    stays = above(e.old - e.old_gone, e.old_gone, _SHARE_STAYED_MIN) if e.old >= 3 else 1.0
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
