"""What `ashlar try` does: find the two Rubies, run the command on each by turns, and put what was seen into forms."""

import contextlib
import itertools
import math
import os
import shutil
import sys
import textwrap
import time
from pathlib import Path

from ashlar import forms
from ashlar.errors import BadInput
from ashlar.files import check_can_write
from ashlar.forms import STANDARD_OUTPUT, TERMINAL
from ashlar.said import say, visible
from ashlar.tables import show_parts
from ashlar.trying import page, report, rubies, server
from ashlar.trying.compare import NAMES, in_window
from ashlar.trying.interrupts import Interrupts
from ashlar.trying.report import Found, Stopped
from ashlar.trying.requests import RATE_MAX
from ashlar.trying.rubies import ASHLAR, STOCK, Ruby
from ashlar.trying.run import Plan, Run, carry_out

_MAKERS = {"html": {".html": page.render}, "json": {".json": report.as_json}}
_ROUNDS_MAX = 50
_SHOW_S = 10.0


def run(asked) -> int:
    """The whole of it; the exit status."""
    chosen = _forms(asked)
    plan = _plan(asked)
    sides, gems_of = _rubies(asked)
    _check_gems(gems_of, sides.get(ASHLAR))
    if plan.address and server.taken(plan.address):
        raise BadInput(f"{plan.address} is taken: something listens there already; end it, or have the command listen elsewhere (ss -ltnp shows who it is)")
    with Interrupts() as interrupts:
        runs, stopped = _run_all(plan, sides, gems_of, asked.rounds, interrupts)
        if not any(map(in_window, runs)):
            raise stopped or BadInput("the command ended before its memory could be read once; give it more to do")
        interrupts.raised_after(_SHOW_S)
        _show(Found(plan, sides, runs, os.environ.get("LD_PRELOAD", ""), stopped), chosen, asked.output)
    if interrupts.count:
        return 130
    return 1 if stopped or any(r.status for r in runs) else 0


# ── What is asked for ──────────────────────────────────────────────────────

def _forms(asked) -> list[str]:
    chosen = forms.chosen(asked.form, (TERMINAL, *_MAKERS))
    if asked.output == STANDARD_OUTPUT and chosen not in (["html"], ["json"]):
        raise BadInput("--output - is one form on standard output; write --form json --output -")
    if chosen != [TERMINAL] and asked.output != STANDARD_OUTPUT:
        if asked.output and asked.output.rpartition("/")[2] in ("", ".", ".."):
            raise BadInput(f"--output {asked.output} is a folder; name the files in it, such as {asked.output.rstrip('/')}/ashlar-try")
        check_can_write(Path(asked.output or "ashlar-try"))
    return chosen


def _plan(asked) -> Plan:
    for name, value, least, most in (("--rate", asked.rate, 0.01, RATE_MAX), ("--seconds", asked.seconds, 0, 86400),
                                     ("--warm-up", asked.warm_up, 0, 3600), ("--ready", asked.ready, 0.1, 3600),
                                     ("--grace", asked.grace, 0, 600), ("--rounds", asked.rounds, 1, _ROUNDS_MAX)):
        if value is not None and not least <= value <= most:
            raise BadInput(f"{name} {value:g} is not possible; give {least:g} to {most:g}")
    paths = [*asked.get, *(_paths_of(asked.paths) if asked.paths else ())]
    address, path = server.of_url(asked.url) if asked.url else (None, "/")
    for one in (*paths, path):
        if not one.startswith("/") or any(c.isspace() or not c.isprintable() or not c.isascii() for c in one):
            raise BadInput(f"{one!r} is no path to ask for; it begins with / and has %20 and the like for what is no plain letter")
    for header in asked.header:
        if ":" not in header or not header.isprintable() or not header.isascii():
            raise BadInput(f"--header {header!r} is not of the form 'Name: value'")
    if asked.url and not paths:
        paths = [path]
    if not paths and (asked.rate is not None or asked.header):
        raise BadInput("--rate and --header are of requests; say what to ask for with --get /path or --paths FILE")
    if paths and asked.seconds == 0:
        raise BadInput("--seconds 0 waits for the end of a program, and --get asks a server; give the seconds to ask it for")
    seconds = math.inf if asked.seconds == 0 else asked.seconds
    return Plan(asked.command, address, path if asked.url else (paths or ["/"])[0], paths, asked.header, asked.rate, False, seconds, asked.warm_up,
                asked.ready, asked.grace)


def _paths_of(file: Path) -> list[str]:
    try:
        lines = [line.strip() for line in file.read_text().splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"cannot read --paths {file}: {error.strerror if isinstance(error, OSError) else 'it is no text'}; give a file with a path in each line") from None
    found = [line for line in lines if line and not line.startswith("#")]
    if not found:
        raise BadInput(f"--paths {file} has no path; write one in each line, such as /articles/1")
    return found


def _rubies(asked) -> tuple[dict[str, Ruby], Ruby]:
    """Those that the command runs on, stock first, and the one that has the gems: stock, and where that is not to be had the other one."""
    ashlar = rubies.of_ashlar(asked.ashlar) if asked.only != STOCK else None
    try:
        stock = rubies.of_stock(asked.stock, ashlar)
    except BadInput:
        if asked.only != ASHLAR or asked.stock:
            raise
        return {ASHLAR: ashlar}, ashlar
    found = {STOCK: stock, ASHLAR: ashlar}
    return {side: one for side, one in found.items() if one and asked.only in (None, side)}, stock


def _check_gems(gems_of: Ruby, ashlar: Ruby | None) -> None:
    """Gems in C that were made for a Ruby with a libruby.so would load a second Ruby into one without it."""
    if ashlar and gems_of.shared and not ashlar.shared and (library := rubies.native_gems_need_libruby(gems_of)):
        raise BadInput(f"{library} needs the libruby.so of {gems_of.program}, and {ashlar.program} has none; "
                       "install Ashlar's Ruby with SHARED=yes, or name a stock Ruby without a libruby.so with --stock")


# ── Running ────────────────────────────────────────────────────────────────

def _run_all(plan: Plan, sides: dict[str, Ruby], gems_of: Ruby, rounds: int, interrupts: Interrupts) -> tuple[list[Run], Stopped]:
    """By turns, and the other one first in every second round. Ctrl-C ends it with what there is, and so does what goes wrong when each side has been run."""
    runs, progress = [], _Progress(rounds)
    try:
        for number in range(1, rounds + 1):
            for side in (sides if number % 2 else reversed(sides)):
                runs.append(carry_out(plan, side, number, sides[side], gems_of, interrupts, progress.tell))
                _check_programs(runs[-1], sides[side])
                interrupts.check()
    except KeyboardInterrupt as interrupt:
        return runs, interrupt
    except BadInput as error:
        if len(runs) < len(sides):
            raise
        return runs, error
    finally:
        progress.clear()
    return runs, None


def _check_programs(found: Run, ruby: Ruby) -> None:
    """Says so where other Rubies ran than the one that was meant."""
    seen = found.seen.programs
    others = [(program, pid) for program, pid in seen.items() if os.path.basename(program).startswith("ruby") and program != str(ruby.program)]
    if str(ruby.program) not in seen and found.samples:
        what = f"{others[0][0]} (process {others[0][1]})" if others else next(iter(seen), "nothing")
        found.warnings.append(f"on {found.side} the command did not run {ruby.program}, but {what}: this is no comparison; "
                              "start it with ruby, bundle exec or bin/…, not through a program that chooses a Ruby itself")
    elif others:
        found.warnings.append(f"on {found.side} {others[0][0]} ran as well (process {others[0][1]}), beside {ruby.program}")


class _Progress:
    """On a terminal one line that changes; elsewhere a line for each new thing. Where it cannot be written, as to a terminal that was closed, nothing else
    is lost."""

    def __init__(self, rounds: int):
        self._rounds, self._last, self._shown, self._at = rounds, ("", "", 0), False, 0.0

    def tell(self, what: str, of: Run) -> None:
        with contextlib.suppress(OSError):
            self._tell(what, of)

    def _tell(self, what: str, of: Run) -> None:
        what = what or self._last[0]
        now, key = time.monotonic(), (what, of.side, of.round)
        if not sys.stderr.isatty():
            if key != self._last and what != "starts":
                say(f"{self._name(of)} {what}", error=True, flush=True)
            self._last = key
            return
        if key == self._last and now - self._at < 0.5:
            return
        self._last, self._at, self._shown = key, now, True
        line = f"{self._name(of)} {what}"
        if of.samples:
            last = of.samples[-1]
            line += f", {last.at_s:.0f} s, {last.pss_bytes / (1 << 20):,.0f} MiB in {last.processes} process{'es' if last.processes > 1 else ''}"
        say(f"\r\x1b[K{visible(line)[:shutil.get_terminal_size().columns - 1]}", error=True, end="", flush=True, raw=True)

    def _name(self, of: Run) -> str:
        return NAMES[of.side] + (f", round {of.round} of {self._rounds}," if self._rounds > 1 else "")

    def clear(self) -> None:
        if self._shown:
            self._shown = False
            with contextlib.suppress(OSError):
                say("\r\x1b[K", error=True, end="", flush=True, raw=True)


# ── Showing ────────────────────────────────────────────────────────────────

def _show(found: Found, chosen: list[str], output: str | None) -> None:
    try:
        if TERMINAL in chosen:
            _show_text(found)
    finally:  # the files are there even where the terminal is not any more
        files = [form for form in chosen if form != TERMINAL]
        if written := forms.write(found, files, _MAKERS, output or _unused(files), private=False):
            say(f"\nwrote {' and '.join(map(str, written))}")
        sys.stdout.flush()  # as long as signals lose nothing


def _show_text(found: Found) -> None:
    width = shutil.get_terminal_size().columns
    facts = report.facts(found)
    if sys.stdout.isatty():
        facts = [textwrap.fill(fact, width, subsequent_indent="  ", break_on_hyphens=False) for fact in facts]
    say("\n".join(facts) + ("\n" if found.verdict else ""))
    show_parts(found.verdict, [report.table(found)], found.warnings, report.picture(found, width))


def _unused(endings: list[str]) -> str:
    """A name that no earlier run has taken."""
    names = (f"ashlar-try{f'-{number}' if number > 1 else ''}" for number in itertools.count(1))
    return next(name for name in names if not any(Path(f"{name}.{ending}").exists() for ending in endings))
