"""A tree of processes, looked at once: what each has by kind, and what each that was forked has written."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from ashlar.errors import BadInput
from ashlar.shared import heap, kinds, outline, process, written
from ashlar.shared.heap import Heap
from ashlar.shared.kinds import Amount
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


def look(pid: int) -> Findings:
    """Raises BadInput where no process of the tree has a heap that may be read."""
    heaps: dict[int, Heap] = {}
    parents = process.tree(pid)
    members, warnings, problems = [], [], []
    with contextlib.ExitStack() as opened:
        for one in parents:
            try:
                members.append(_member(opened.enter_context(contextlib.closing(Process(one))), heaps, parents))
            except BadInput as problem:
                problems.append(problem)
        if not members:
            raise problems[0]
        if problems:
            warnings.append(f"{len(problems)} process{'es are' if len(problems) > 1 else ' is'} left out: {problems[0]}")
        warnings += _parent_outside(pid, parents[pid], heaps)
    return Findings(tuple(members), tuple(warnings))


def _member(one: Process, heaps: dict[int, Heap], parents: dict[int, int]) -> Member:
    place = outline.find(one)
    forker = next((heaps[p] for p in _ancestors(one.pid, parents) if p in heaps and heaps[p].outline == place), None)
    found = heap.read(one, place, forker)
    amounts = {**kinds.of_heap(found), **kinds.elsewhere(one, place)}
    differs = written.compare(forker, found) if forker else None
    member = Member(one.pid, one.name, forker.process.pid if forker else None, one.rollup.get("Rss", 0), one.rollup.get("Pss", 0), amounts, differs)
    heaps[one.pid] = found
    return member


def _ancestors(pid: int, parents: dict[int, int]) -> Iterator[int]:
    while (pid := parents.get(pid)) is not None:
        yield pid


def _parent_outside(pid: int, parent: int, heaps: dict[int, Heap]) -> list[str]:
    """Says so when the process was forked by one that was not asked for."""
    with contextlib.suppress(BadInput), contextlib.closing(Process(parent)) as above:
        if pid in heaps and outline.find(above) == heaps[pid].outline:
            return [f"process {pid} was forked by {parent} ({above.name}), which this leaves out; ashlar shared {parent} compares both"]
    return []
