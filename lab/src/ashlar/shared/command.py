"""What `ashlar shared` does: look at a tree of processes, and put what was found into a form."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from ashlar.errors import BadInput
from ashlar.files import put, to_standard_output
from ashlar.said import say
from ashlar.shared import page, tables, tree
from ashlar.shared.process import PAGE_BYTES
from ashlar.shared.tree import Findings
from ashlar.tables import show_parts

TERMINAL, STANDARD_OUTPUT = "terminal", "-"
FORMS = (TERMINAL, "html", "json")


def run(pid: str, form: str, output: str | None, lines: int) -> None:
    if not pid.isdecimal() or not 0 < int(pid) < 1 << 31:
        raise BadInput(f"{pid!r} is no process's number; give that of a parent that forks")
    if form not in FORMS:
        raise BadInput(f"--form has {form!r}; give one of {','.join(FORMS)}")
    if output and form == TERMINAL:
        raise BadInput("--output names a file, and --form terminal writes none; add --form html or json")
    if lines < 1:
        raise BadInput(f"--lines {lines} shows nothing; give 1 or more")
    found = tree.look(int(pid))
    if form == TERMINAL:
        show_parts(tables.facts(found), tables.tables(found, lines), found.warnings)
        return
    made = page.render(found) if form == "html" else as_json(found)
    if output == STANDARD_OUTPUT:
        to_standard_output(made)
    else:
        say(f"wrote {put(Path(output or f'shared-{pid}.{form}'), made, private=True)}")


def as_json(found: Findings) -> str:
    """Amounts in bytes; what was written in pages."""
    return json.dumps({"page_bytes": PAGE_BYTES, "warnings": found.warnings, "processes": [asdict(m) for m in found.members]}, indent=1) + "\n"
