"""What `ashlar boot` does, and its tables."""

import dataclasses
import json
import os
from collections import defaultdict

from ashlar.boot.measure import Boot, LoadedFile, measure
from ashlar.errors import BadInput
from ashlar.heap.profile import short_path
from ashlar.said import one_line, say
from ashlar.tables import Table, show_tables

ORDERS = {"own": lambda f: f.own_ns, "total": lambda f: f.total_ns, "objects": lambda f: f.own_objects, "collecting": lambda f: f.own_collecting_ns}


def run(asked) -> int:
    if asked.by not in ORDERS:
        raise BadInput(f"--by {asked.by}: {', '.join(ORDERS)} is wanted")
    if asked.top < 1:
        raise BadInput(f"--top {asked.top} lists nothing; give 1 or more")
    boots, status = measure(asked.command)
    if asked.json:
        say(json.dumps([dataclasses.asdict(boot) for boot in boots], indent=1))
    else:
        for found in boots:
            show(found, top=asked.top, by=asked.by)
    return status


def show(boot: Boot, *, top: int, by: str) -> None:
    """Prints what one process came to, then its files, then the libraries that they are of, to standard error."""
    files = [(short(file.path), [file], _milliseconds(file.total_ns)) for file in sorted(boot.files, key=ORDERS[by], reverse=True)]
    groups: dict[str, list[LoadedFile]] = defaultdict(list)
    for file in boot.files:
        groups[library(file.path)].append(file)
    libraries = [(name, found, f"{len(found):,}") for name, found in sorted(groups.items(), key=lambda group: -sum(f.own_ns for f in group[1]))]
    tables = [_summary(boot), _table("files", "own time" if by == "own" else by, ("file", "with all it loads, ms"), files, top),
              _table("libraries", "own time", ("library", "files"), libraries, top)]
    say(f"process {boot.process} until {boot.why}: {one_line(' '.join(boot.command))}\n{boot.ruby}", error=True)
    show_tables(tables, error=True)


def _milliseconds(ns: int) -> str:
    return f"{ns / 1e6:,.1f}"


def _summary(boot: Boot) -> Table:
    in_files = sum(file.own_ns for file in boot.files)
    share = 100 * boot.collecting_share
    kept = 100 * boot.kept_objects / max(boot.objects, 1)
    rows = [
        ("time", f"{_milliseconds(boot.wall_ns)} ms", f"{_milliseconds(boot.cpu_ns)} ms CPU", f"{_milliseconds(in_files)} ms in {len(boot.files):,} files", ""),
        ("collector", f"{_milliseconds(boot.collecting_ns)} ms", f"{share:.1f} % of CPU", f"{boot.collections:,} collections", f"{boot.full_collections:,} full"),
        ("objects", f"{boot.objects:,} allocated", f"{boot.kept_objects:,} alive at the end", f"{kept:.0f} % of those", ""),
        ("memory", f"{boot.rss_kib:,} KiB RSS", "", "", ""),
    ]
    for name, sums in (("compiler", boot.compiled), ("compiled code", boot.from_binary)):
        if sums.files:
            rows.append((name, f"{_milliseconds(sums.ns)} ms", f"{sums.objects:,} objects", f"{sums.files:,} files", f"{sums.objects / sums.files:.0f} objects a file"))
    rows += _code_cache(boot)
    return Table("summary", "", ("", "", "", "", ""), tuple(rows))


def _code_cache(boot: Boot) -> list[tuple[str, ...]]:
    """What Ashlar's code cache did, and which code ran. What it saved is the time that compiling took when the code was compiled."""
    counts = boot.code_cache
    if counts is None:
        return []
    rows = [("code cache", f"{_milliseconds(counts['saved_us'] * 1000)} ms of compiling saved", f"{counts['hits']:,} files found",
             f"{counts['misses']:,} compiled, {counts['kept']:,} kept", f"{counts['loaded_bytes'] >> 10:,} of {counts['file_bytes'] >> 10:,} KiB")]
    if counts["ran_before"] or counts["loaded_later"]:
        rows.append(("code that ran", f"{counts['loaded_later']:,} loaded when it ran", f"{counts['ran_before']:,} ran, earlier ones too",
                     f"{counts['sequences']:,} sequences in the file", ""))
    return rows


def _table(name: str, by: str, head: tuple[str, str], ranked: list[tuple[str, list[LoadedFile], str]], top: int) -> Table:
    """What is said of the first ones, each with what its files take."""
    rows = tuple((label, told, _milliseconds(sum(f.own_ns for f in files)), f"{sum(f.own_objects for f in files):,}", _milliseconds(sum(f.own_collecting_ns for f in files)))
                 for label, files, told in ranked[:top])
    return Table(name, f"{len(rows)} of {len(ranked)} {name}, by {by}", (*head, "own, ms", "own objects", "collector, ms"), rows)


def library(path: str) -> str:
    """The gem that a file belongs to, or the part of Ruby's library, or its folder."""
    inside = short_path(path)
    if inside == path:
        return os.path.dirname(path) or "."
    first = inside.partition("/")[0]
    return first if "/gems/" in path else f"ruby: {first.removesuffix('.rb').removesuffix('.so')}"


def short(path: str) -> str:
    """A path from its library on, or from the working folder on."""
    return short_path(path).removeprefix(os.getcwd() + "/")
