"""Which forms an answer takes, and where a form goes: files, or standard output."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ashlar.errors import BadInput
from ashlar.files import is_device, put, to_standard_output
from ashlar.said import say

TERMINAL, STANDARD_OUTPUT = "terminal", "-"


def chosen(text: str, known: Sequence[str]) -> list[str]:
    """The names in a list with commas, each once."""
    found = [name for part in text.split(",") if (name := part.strip())]
    if unknown := [name for name in found if name not in known]:
        raise BadInput(f"--form has {unknown[0]!r}; give some of {','.join(known)}")
    if not found:
        raise BadInput(f"--form is empty; give some of {','.join(known)}")
    return list(dict.fromkeys(found))


def check_lines(lines: int) -> None:
    if lines < 1:
        raise BadInput(f"--lines {lines} shows nothing; give 1 or more")


def write(found: object, chosen: Sequence[str], makers: Mapping[str, Mapping[str, Callable]], output: str, private: bool = True) -> list[Path]:
    """What is made of `found` in each form: `output` with the ending of each file. It is `private` unless it tells nothing of a program's heap. Where there
    is one form, `output` may be the whole name, with the last part of the ending, or a device, or `-`, which is standard output; of a form
    of several files it then takes the first. Returns what was written."""
    wanted = [maker for form in chosen for maker in makers[form].items()]
    if len(chosen) == 1:
        ending, make = wanted[0]
        if output == STANDARD_OUTPUT:
            to_standard_output(make(found))
            return []
        if output.endswith("." + ending.rpartition(".")[2]) or is_device(Path(output)):
            return [put(Path(output), make(found), private)]
    elif output == STANDARD_OUTPUT:
        raise BadInput(f"--output - takes one form, and --form has {','.join(chosen)}; leave out all but one")
    return [put(Path(output + ending), make(found), private) for ending, make in wanted]


def tell(written: Sequence[Path]) -> None:
    say("".join(f"wrote {path}\n" for path in written), end="")
