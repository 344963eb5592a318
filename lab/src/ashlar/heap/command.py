"""What `ashlar heap` and `ashlar top` do: read an image, make a profile or numbers of it, and put that into a form."""

import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from ashlar import forms
from ashlar.errors import BadInput
from ashlar.heap import image
from ashlar.heap.image import Image
from ashlar.said import say

TOP_FORMS = ("terminal", "openmetrics")


def read(source: str) -> Image:
    """A number is a process; `./4242` is a file."""
    return image.read_process(int(source)) if source.isdigit() else image.read_file(Path(source))


def run(asked) -> int:
    """The exit status of `ashlar heap`."""
    if asked.what[0] == "diff":
        return _diff(asked)
    if asked.strict:
        raise BadInput("--strict judges two profiles; write ashlar heap diff A B --strict")
    return _show(asked)


def _show(asked) -> int:
    from ashlar.heap import profile, tables
    from ashlar.tables import show_parts

    if len(asked.what) != 1:
        raise BadInput(f"ashlar heap takes one file or process, and got {' '.join(asked.what)}; two are compared by ashlar heap diff A B")
    made = makers()
    chosen = forms.chosen(asked.form, (forms.TERMINAL, *made))
    forms.check_lines(asked.lines)
    found = profile.from_image(read(asked.what[0]))
    files = [form for form in chosen if form != forms.TERMINAL]
    if asked.output and not files:
        raise BadInput("--output names files, and --form terminal writes none; add --form html, pprof, collapsed or json")
    written = forms.write(found, files, made, asked.output or _default_output(asked.what[0]))  # first: whoever reads the terminal may go away
    if forms.TERMINAL in chosen:
        show_parts(tables.facts(found), tables.tables(found, asked.lines), tables.warnings(found))
    forms.tell(written)
    return 0


def makers() -> dict[str, dict[str, Callable]]:
    """What makes a profile's forms, with the endings of their files."""
    from ashlar.heap import collapsed, export, html, pprof

    return {"html": {".html": html.render}, "pprof": {".pb.gz": pprof.render},
            "collapsed": {f".{measure}.collapsed": partial(collapsed.render, measure=measure) for measure in html.MEASURES}, "json": {".json": export.render}}


def _default_output(source: str) -> str:
    """Beside the file, `app.heap` without its ending and those of forked processes, `app.heap.101`, with their number; `heap-PID` for a process."""
    return f"heap-{source}" if source.isdigit() else source.removesuffix(".heap")


def _diff(asked) -> int:
    """1 with `strict` when a leak is named."""
    from ashlar.heap import difference, profile
    from ashlar.heap import difference_tables as told
    from ashlar.tables import show_parts

    what = asked.what[1:]
    if len(what) != 2:
        raise BadInput(f"ashlar heap diff takes two profiles, and got {len(what)}; write ashlar heap diff BEFORE AFTER")
    chosen = forms.chosen(asked.form, (forms.TERMINAL, "json"))
    forms.check_lines(asked.lines)
    found = difference.compare(*(profile.from_image(read(source)) for source in what))
    if forms.TERMINAL in chosen:
        show_parts(told.facts(found), [told.table(found, asked.lines), *told.stacks(found)], told.warnings(found))
    if "json" in chosen:
        forms.tell(forms.write(found, ["json"], {"json": {".json": told.as_json}}, asked.output or f"{_default_output(what[1])}-growth"))
    return 1 if asked.strict and found.leaks else 0


def top(asked) -> None:
    from ashlar.heap import openmetrics, top as live

    pid, once, every, form, output = asked.pid, asked.once, asked.every, asked.form, asked.output
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
        has_told = False
        for _ in _moments(None if once else every):
            found = live.read_all(pids)
            openmetrics.put(found, output)
            if not found and not has_told:
                say(f"ashlar: {live.NONE}", error=True, flush=True)
                has_told = True
    elif pids is None:
        say(live.listed(live.read_all(None)))
    elif once or not sys.stdout.isatty():
        before = None
        for _ in _moments(None if once else every):
            now = live.read_again(pids[0], before)
            say(live.text(now, before), flush=True)
            before = now
    else:
        live.watch(pids[0], every or 1.0)


def _moments(every: float | None) -> Iterator[None]:
    """Now, and with `every` again until interrupted."""
    yield
    while every:
        time.sleep(every)
        yield
