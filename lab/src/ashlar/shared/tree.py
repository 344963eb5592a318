"""A tree of processes, looked at once: what each has by kind, and what each that was forked has written."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from ashlar.errors import BadInput
from ashlar.shared import heap, kinds, outline, process, written
from ashlar.shared.heap import Heap
from ashlar.shared.kinds import Amount
from ashlar.shared.outline import Outline
from ashlar.shared.process import Process
from ashlar.shared.written import Written


@dataclass(frozen=True)
class Member:
    """A process with a heap. `parent` is the one of the tree that it shares its heap with, through a fork; none for one that has a heap of its own."""

    pid: int
    name: str
    parent: int | None
    rss_bytes: int
    pss_bytes: int
    amounts: dict[str, Amount]
    written: Written | None

    @property
    def total(self) -> Amount:
        return sum(self.amounts.values(), Amount())


@dataclass(frozen=True)
class Findings:
    members: tuple[Member, ...]
    warnings: tuple[str, ...]

    @property
    def forked(self) -> list[Member]:
        return [m for m in self.members if m.parent is not None]


@dataclass(frozen=True, eq=False)
class _Found:
    """A process that has a heap. `said` are the numbers of those that it was forked from, nearest first, where the heap says so."""

    process: Process
    outline: Outline
    said: list[int] | None
    parent: int

    def may_be_forked_by(self, other: Process, place: Outline) -> bool:
        """Forks have their heap at the same place. A number may have been given to a younger process."""
        return place == self.outline and other.started <= self.process.started and other.pid != self.process.pid


def look(pid: int) -> Findings:
    """Raises BadInput where no process of the tree has a heap that may be read."""
    parents = process.tree(pid)
    members: list[Member] = []
    heaps: dict[int, Heap] = {}
    with contextlib.ExitStack() as opened:
        found, problems = _open(parents, opened)
        forkers = {one: _forker(one, found, parents) for one in found}
        for one in sorted(found, key=lambda one: _depth(one, forkers)):
            try:
                members.append(_member(one, heaps, forkers))
            except BadInput as problem:
                problems.append(problem)
        if not members:
            raise problems[0]
        warnings = [f"{len(problems)} process{'es are' if len(problems) > 1 else ' is'} left out: {problems[0]}"] if problems else []
        warnings += filter(None, (_outside(one, one.process.pid == pid) for one in found if not forkers[one]))
    return Findings(tuple(members), tuple(warnings))


def _open(parents: dict[int, int], opened: contextlib.ExitStack) -> tuple[list[_Found], list[BadInput]]:
    """The processes that have a heap, and why others may not be read."""
    found, problems = [], []
    for pid, parent in parents.items():
        try:
            one = opened.enter_context(contextlib.closing(Process(pid)))
            place = outline.find(one)
            found.append(_Found(one, place, outline.forkers(one, place), parent))
        except BadInput as problem:
            problems.append(problem)
    return found, problems


def _forker(one: _Found, found: list[_Found], parents: dict[int, int]) -> _Found | None:
    """The nearest process that this one shares its heap with, through forks. That need not be its parent any more. Where the heap does not say whose
    child it was, the parents of now are asked."""
    alike = [other for other in found if one.may_be_forked_by(other.process, other.outline)]
    if one.said is None:
        numbers, known = _ancestors(one.process.pid, parents), {other.process.pid: other for other in alike}
    else:
        numbers, known = iter(one.said), {other.process.own_number: other for other in alike}
    return next((known[number] for number in numbers if number in known), None)


def _ancestors(pid: int, parents: dict[int, int]) -> Iterator[int]:
    while (pid := parents.get(pid)) is not None:
        yield pid


def _depth(one: _Found, forkers: dict[_Found, _Found | None]) -> int:
    """How many forks it is away from one that is known to be forked by none: a forker comes before its children."""
    depth = 0
    while one := forkers[one]:
        depth += 1
    return depth


def _member(one: _Found, heaps: dict[int, Heap], forkers: dict[_Found, _Found | None]) -> Member:
    above = forkers[one]
    while above and above.process.pid not in heaps:  # it has ended meanwhile
        above = forkers[above]
    forker = heaps[above.process.pid] if above else None
    at = one.process
    held = heap.read(at, one.outline, forker)
    amounts = {**kinds.of_heap(held), **kinds.elsewhere(at, one.outline)}
    differs = written.compare(forker, held) if forker else None
    member = Member(at.pid, at.name, forker.process.pid if forker else None, at.rollup.get("Rss", 0), at.rollup.get("Pss", 0), amounts, differs)
    heaps[at.pid] = held
    return member


def _outside(one: _Found, is_first: bool) -> str:
    """Names the process that a member was forked from where that is not in the tree; empty for one that was not forked, and for the first one if its
    forker has ended: a server that has become a daemon was forked by its own first process, which is gone."""
    pid = one.process.pid
    for number in [*(one.said or [] if one.process.own_number == pid else []), one.parent]:
        with contextlib.suppress(BadInput), contextlib.closing(Process(number)) as above:
            is_named = one.said is None or above.own_number in one.said
            if is_named and one.may_be_forked_by(above, outline.find(above)):
                return f"process {pid} was forked by {number} ({above.name}), which this leaves out{_advice(pid, number, one.parent)}"
    return f"process {pid} was forked by one that is not among these, so there is nothing to compare it with" if one.said and not is_first else ""


def _advice(pid: int, forker: int, parent: int) -> str:
    """Which number to give for both: a process's parent now may be another one than that which forked it."""
    roots = (root for root in (forker, parent) if root == forker or root > 1)
    root = next((root for root in roots if {pid, forker} <= process.tree(root).keys()), None)
    return f"; ashlar shared {root} compares both" if root else ""
