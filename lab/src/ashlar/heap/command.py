"""What `ashlar heap` and `ashlar top` do: read an image, make a profile or numbers of it, and put that into a form."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from ashlar.errors import BadInput
from ashlar.heap import image
from ashlar.heap.image import Image
from ashlar.said import say

TOP_FORMS = ("terminal", "openmetrics")


def read(source: str) -> Image:
    """A number is a process; `./4242` is a file."""
    return image.read_process(int(source)) if source.isdigit() else image.read_file(Path(source))


def show(what: list[str], form: str, output: str | None, lines: int) -> None:
    from ashlar.heap import profile, tables, write
    from ashlar.tables import show_parts

    if len(what) != 1:
        raise BadInput(f"ashlar heap takes one file or process, and got {' '.join(what)}; two are compared by ashlar heap diff A B")
    forms = write.forms(form)
    _check_lines(lines)
    found = profile.from_image(read(what[0]))
    files = [f for f in forms if f != write.TERMINAL]
    if output and not files:
        raise BadInput("--output names files, and --form terminal writes none; add --form html, pprof, collapsed or json")
    written = write.write(found, files, output or write.default_output(what[0]))  # first: whoever reads the terminal may go away
    if write.TERMINAL in forms:
        show_parts(tables.facts(found), tables.tables(found, lines), tables.warnings(found))
    say("".join(f"wrote {path}\n" for path in written), end="")


def diff(what: list[str], form: str, output: str | None, lines: int, strict: bool) -> int:
    """The exit status: 1 with `strict` when a leak is named."""
    from ashlar.files import put, to_standard_output
    from ashlar.heap import difference, profile, write
    from ashlar.heap import difference_tables as told
    from ashlar.tables import show_parts

    if len(what) != 2:
        raise BadInput(f"ashlar heap diff takes two profiles, and got {len(what)}; write ashlar heap diff BEFORE AFTER")
    forms = write.forms(form, (write.TERMINAL, "json"))
    _check_lines(lines)
    found = difference.compare(*(profile.from_image(read(source)) for source in what))
    if write.TERMINAL in forms:
        show_parts(told.facts(found), [told.table(found, lines), *told.stacks(found)], told.warnings(found))
    if "json" in forms:
        if output == write.STANDARD_OUTPUT:
            to_standard_output(told.as_json(found))
        else:
            target = Path(output or f"{write.default_output(what[1])}-growth.json")
            say(f"wrote {put(target, told.as_json(found), private=True)}")
    return 1 if strict and found.leaks else 0


def _check_lines(lines: int) -> None:
    if lines < 1:
        raise BadInput(f"--lines {lines} shows nothing; give 1 or more")


def top(pid: str | None, once: bool, every: float | None, form: str, output: Path | None) -> None:
    from ashlar.heap import openmetrics, top as live

    if pid is not None and not pid.isdigit():
        raise BadInput(f"{pid!r} is no process's number; ashlar top lists those that have live numbers")
    if form not in TOP_FORMS:
        raise BadInput(f"--form has {form!r}; give {' or '.join(TOP_FORMS)}")
    if every is not None and not 0.05 <= every <= 86400:
        raise BadInput(f"--every {every:g} is out of reach; give 0.05 to 86400 seconds")
    if output and form != "openmetrics":
        raise BadInput("--output names a file for --form openmetrics; the terminal's form is printed")
    pids = [int(pid)] if pid else None
    if form == "openmetrics":
        _repeat(lambda: openmetrics.put(live.read_all(pids), output), every if not once else None)
    elif pids is None:
        say(live.listed(live.read_all(None)))
    elif once or not sys.stdout.isatty():
        _repeat_text(pids[0], None if once else every)
    else:
        live.watch(pids[0], every or 1.0)


def _repeat(work, every: float | None) -> None:
    """Once, or until interrupted."""
    work()
    while every:
        time.sleep(every)
        work()


def _repeat_text(pid: int, every: float | None) -> None:
    from ashlar.heap import top as live

    before = None

    def one():
        nonlocal before
        now = live.read(pid)
        say(live.text(now, before), flush=True)
        before = now
    _repeat(one, every)
