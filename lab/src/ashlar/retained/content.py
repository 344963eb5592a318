"""What is said and listed of a dump, before it takes a form."""

from collections.abc import Iterator
from typing import NamedTuple

from ashlar import amounts
from ashlar.tables import Table

_BLOCK_BYTES = 64 << 10
_CLASSES = 25
_LARGEST = 12
_BRANCHES = 60
_KEPT = ("kept by the line above it", "objects", "own", "retained", "of the heap")


class Content(NamedTuple):
    """All parts of a report in reading order. `asked` are the tables that answer what was asked for, `told` is what the program that reads dumps said."""

    title: str
    facts: str
    verdict: tuple[str, ...]
    warnings: tuple[str, ...]
    tables: tuple[Table, ...]
    asked: tuple[Table, ...]
    told: dict


def share(part: float, whole: float) -> str:
    return amounts.percent(part, whole, 1)


def steps(path: list[dict]) -> str:
    """A path in one line."""
    return " → ".join(_step(step) for step in path)


def _step(step: dict) -> str:
    if "left_out" in step:
        return f"… {step['left_out']} more …"
    return step["label"] + (f" ×{step['count']:,}" if step["count"] > 1 else "")


def _row(step: dict) -> tuple[str, str, str]:
    """A step of a path by itself."""
    return _step(step), step.get("address") or "", amounts.memory(step["retained_bytes"]) if "retained_bytes" in step else ""


def build(told: dict, name: str, classes: list[str], why: list[str]) -> Content:
    whole = told["totals"]["reached_bytes"]
    answers = (table for asked, subject in zip([*classes, *why], told["subjects"])
               for table in (_class(subject, whole, keeps=asked in classes) if "class" in subject else _object(asked, subject, whole)))
    return Content(title=f"Who keeps what: {name}", facts=_facts(told), verdict=tuple(_verdict(told)), warnings=tuple(_warnings(told)),
                   tables=tuple(_tables(told)), asked=tuple(t for t in answers if t.rows or t.note), told=told)


def _facts(told: dict) -> str:
    source, totals = told["source"], told["totals"]
    said = [source["format"], f"{totals['objects']:,} objects", f"{totals['references']:,} references"]
    if source["ruby_version"]:
        said.append(f"Ruby {source['ruby_version']}")
    if source["pid"]:
        said.append(f"process {source['pid']}")
    if source["unix_seconds"]:
        said.append(amounts.moment(source["unix_seconds"]))
    return ", ".join(said)


def _verdict(told: dict):
    totals, memory = told["totals"], told["memory"]
    whole = totals["reached_bytes"]
    yield (f"{totals['objects']:,} objects take {amounts.memory(totals['cell_bytes'] + totals['payload_bytes'])}: "
           f"{amounts.memory(totals['cell_bytes'])} of cells and {amounts.memory(totals['payload_bytes'])} of payloads.")
    for item in told["largest"][:3]:
        if item["retained_bytes"] * 50 >= whole:
            yield (f"{item['label']} at {item['address']} keeps {amounts.memory(item['retained_bytes'])} ({share(item['retained_bytes'], whole)}) alive: {steps(item['path'])}.")
    cells = memory["cells"]
    taken, live = sum(w["blocks"] for w in cells) * _BLOCK_BYTES, sum(w["used"] * w["width_bytes"] for w in cells)
    told_of = f"Holes between live cells are {amounts.memory(taken - live)} of {amounts.memory(taken)} ({share(taken - live, taken)})"
    if told["source"]["tells_blocks"]:
        told_of += f"; {amounts.memory(memory['spare_blocks'] * _BLOCK_BYTES)} are spare: in empty blocks whose memory has not gone back to the system"
    yield told_of + "."


def _warnings(told: dict):
    totals = told["totals"]
    if totals["unreached_objects"]:
        yield (f"{totals['unreached_objects']:,} objects of {amounts.memory(totals['unreached_bytes'])} cannot be reached from the roots. They are garbage, or kept by "
               "what the dump does not tell; they are in no retained size. GC.start before ObjectSpace.dump_all leaves less of them.")
    if totals["dangling_references"]:
        yield f"{totals['dangling_references']:,} references lead to objects that the dump does not describe; the dump may have been cut off."
    if not told["source"]["tells_blocks"]:
        yield ("ObjectSpace.dump_all does not tell of empty blocks and of payloads' blocks: the map shows the pages that hold objects. "
               "GC.config(dump: \"file\") on Ashlar tells all.")


def _tables(told: dict):
    totals = told["totals"]
    whole = totals["reached_bytes"]
    rows = [(c["class"], f"{c['objects']:,}", amounts.memory(c["cell_bytes"]), amounts.memory(c["payload_bytes"]), amounts.memory(c["retained_bytes"]), share(c["retained_bytes"], whole))
            for c in told["classes"][:_CLASSES]]
    more = len(told["classes"]) - len(rows)
    yield Table("classes", "Classes by retained size", ("class", "objects", "cells", "payloads", "retained", "of the heap"), tuple(rows),
                "Retained: what would be freed if the objects of the class were gone one by one; what one keeps through another counts once. "
                "Classes overlap, so the shares do not add up." + (f" {more:,} more classes are in the JSON." if more > 0 else ""))
    rows = [(f"{i['label']} {i['address']}", amounts.memory(i["shallow_bytes"]), amounts.memory(i["retained_bytes"]), share(i["retained_bytes"], whole), steps(i["path"]))
            for i in told["largest"][:_LARGEST]]
    yield Table("largest", "Objects that retain most", ("object", "own", "retained", "of the heap", "a path from the roots"), tuple(rows))
    rows, left_out = _largest_branches(told["tree"]["below"], whole)
    yield Table("tree", "What keeps what", _KEPT, rows,
                "The dominator tree: if the objects of a line were gone, those below it would be freed. Objects of one class below one line are put together; "
                "what several lines keep is beside them, not below one of them." + (f" {left_out} smaller lines are in the JSON." if left_out else ""))
    yield from _memory(told)


def _largest_branches(below: list[dict], whole: int) -> tuple[tuple[tuple[str, ...], ...], int]:
    """The rows of the branches that retain most, each below the one that keeps it, and how many are left out. A branch retains as much as one below
    it at least, and comes first where both retain the same: what is shown hangs together."""
    found = list(_branches(below))
    shown = sorted(sorted(range(len(found)), key=lambda i: -found[i][1]["retained_bytes"])[:_BRANCHES])
    return tuple(_branch(*found[i], whole) for i in shown), len(found) - len(shown)


def _branches(below: list[dict], depth: int = 0) -> Iterator[tuple[int, dict]]:
    for branch in below:
        yield depth, branch
        yield from _branches(branch["below"], depth + 1)


def _branch(depth: int, branch: dict, whole: int) -> tuple[str, ...]:
    return ("· " * depth + branch["label"], f"{branch['objects']:,}", amounts.memory(branch["shallow_bytes"]), amounts.memory(branch["retained_bytes"]),
            share(branch["retained_bytes"], whole))


def _memory(told: dict):
    memory = told["memory"]
    yield Table("cells", "Cells by width", ("width", "blocks", "live", "live bytes", "holes", "full"), tuple(_widths(memory["cells"])),
                "Holes: free cells, and what is left at the ends of blocks.")
    if not told["source"]["tells_blocks"]:
        return
    rows = list(_widths(memory["payloads"]))
    spans = memory["spans"]
    if spans["count"]:
        rows.append((f"{spans['count']:,} larger ones", f"{spans['blocks']:,}", f"{spans['count']:,}", amounts.memory(spans["used_bytes"]),
                     amounts.memory(spans["room_bytes"] - spans["used_bytes"]), share(spans["used_bytes"], spans["room_bytes"])))
    rows.append(("spare blocks", f"{memory['spare_blocks']:,}", "", "", amounts.memory(memory["spare_blocks"] * _BLOCK_BYTES), ""))
    elsewhere = told["source"]["elsewhere_bytes"]
    yield Table("payloads", "Payloads by size", ("size", "blocks", "in use", "bytes in use", "holes", "full"), tuple(rows),
                "In use: also by no object, such as tables of the interpreter, and pieces in a thread's cache. The ends of larger payloads' blocks take memory only where they were used before."
                + (f" Objects own {amounts.memory(elsewhere)} more outside this heap, as they told." if elsewhere else ""))


def _widths(widths: list[dict]):
    for w in widths:
        taken, used = w["blocks"] * _BLOCK_BYTES, w["used"] * w["width_bytes"]
        yield (f"{w['width_bytes']:,}", f"{w['blocks']:,}", f"{w['used']:,}", amounts.memory(used), amounts.memory(taken - used), share(used, taken))


def _class(c: dict, whole: int, keeps: bool):
    sizes = (f"{c['objects']:,} objects: {amounts.memory(c['cell_bytes'])} of cells, {amounts.memory(c['payload_bytes'])} of payloads. One by one they retain {amounts.memory(c['retained_bytes'])}; "
             f"all of them together {amounts.memory(c['together_bytes'])} ({share(c['together_bytes'], whole)} of the heap), in {c['together_objects']:,} objects.")
    ways = Table("ways", f"Why objects of {c['class']} are alive", ("a path from the roots", "objects", "own"),
                 tuple((steps(w["path"]), f"{w['objects']:,}", amounts.memory(w["shallow_bytes"])) for w in c["ways"]),
                 ("" if keeps else sizes + " ") + (f"{c['ways_in_all'] - len(c['ways']):,} more ways lead to fewer objects each." if c["ways_in_all"] > len(c["ways"]) else ""))
    if keeps:
        yield Table("class", f"Objects of {c['class']} that retain most", ("address", "own", "retained", "of the heap"),
                    tuple((o["address"], amounts.memory(o["shallow_bytes"]), amounts.memory(o["retained_bytes"]), share(o["retained_bytes"], whole)) for o in c["largest"][:_LARGEST]), sizes)
    yield ways
    yield _referrers(f"objects of {c['class']}", c)


def _referrers(name: str, subject: dict) -> Table:
    return Table("referrers", f"Who refers to {name}", ("by class", "objects"), tuple((r["label"], f"{r['objects']:,}") for r in subject["referrers"]))


def _object(asked: str, o: dict, whole: int):
    age = {0: "new", 3: "old"}.get(o["age"], f"{o['age']} collections old")
    said = f"{o['label']}, {age}: {amounts.memory(o['shallow_bytes'])} of its own, {amounts.memory(o['retained_bytes'])} retained ({share(o['retained_bytes'], whole)} of the heap)."
    if not o["path"]:
        yield Table("why", f"Why {asked} is alive", ("from the roots",), (), said + " It cannot be reached from the roots: it is garbage, or kept by what the dump does not tell.")
        return
    yield Table("why", f"Why {asked} is alive", ("from the roots", "address", "retained"),
                tuple(map(_row, o["path"])),
                said + " A shortest path; there may be others.")
    yield Table("keepers", f"What must go for {asked} to be freed", ("any one of these", "address", "retained"),
                tuple(map(_row, o.get("keepers", [])[:-1])),
                "All paths lead through each of them. With categories of roots alone, several paths lead to it.")
    yield _referrers(asked, o)
    rows, _ = _largest_branches(o.get("below", []), whole)
    if rows:
        yield Table("below", f"What {asked} keeps", _KEPT, rows)
