"""Forms of a profile to files, each written whole or not at all, for this user to read."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from ashlar.errors import BadInput
from ashlar.files import put, to_standard_output
from ashlar.forms import STANDARD_OUTPUT, TERMINAL, is_whole
from ashlar.heap import collapsed, export, html, pprof
from ashlar.heap.profile import Profile

_MAKERS: dict[str, list[tuple[str, Callable[[Profile], str | bytes]]]] = {
    "html": [(".html", html.render)],
    "pprof": [(".pb.gz", pprof.render)],
    "collapsed": [(f".{measure}.collapsed", partial(collapsed.render, measure=measure)) for measure in html.MEASURES],
    "json": [(".json", export.render)],
}
FORMS = (TERMINAL, *_MAKERS)


def write(found: Profile, chosen: list[str], output: str) -> list[Path]:
    """`output` with the ending of each form. Where there is one form, `output` may be the whole name, a device, or `-`, which is standard
    output; of the two collapsed files it then takes the one of live bytes. Returns what was written."""
    makers = [maker for form in chosen for maker in _MAKERS[form]]
    if len(chosen) == 1 and makers:
        ending, make = makers[0]
        if output == STANDARD_OUTPUT:
            to_standard_output(make(found))
            return []
        if is_whole(output, ending):
            return [put(Path(output), make(found), private=True)]
    if output == STANDARD_OUTPUT:
        raise BadInput(f"--output - takes one form, and --form has {','.join(chosen)}; leave out all but one")
    return [put(Path(output + ending), make(found), private=True) for ending, make in makers]


def default_output(source: str) -> str:
    """Beside the file without its ending; `heap-PID` for a process."""
    return f"heap-{source}" if source.isdigit() else str(Path(source).with_suffix(""))
