"""Which forms an answer takes, and where a form goes: files, or standard output."""

from __future__ import annotations

from collections.abc import Sequence
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


def hand_out(made: str | bytes, output: str, ending: str) -> None:
    """To standard output, or into a file that tells of a program's heap, and so is for this user alone: `output` with the ending, or a device."""
    if output == STANDARD_OUTPUT:
        to_standard_output(made)
    else:
        say(f"wrote {put(Path(output if is_whole(output, ending) else output + ending), made, private=True)}")


def is_whole(output: str, ending: str) -> bool:
    """Whether this is all of a file's name, with the last part of its ending, or a device."""
    return output.endswith("." + ending.rpartition(".")[2]) or is_device(Path(output))
