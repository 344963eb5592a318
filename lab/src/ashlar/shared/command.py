"""What `ashlar shared` does: look at a tree of processes, and put what was found into a form."""

import json
from dataclasses import asdict

from ashlar import forms
from ashlar.errors import BadInput
from ashlar.shared import page, tables, tree
from ashlar.shared.process import PAGE_BYTES
from ashlar.shared.tree import Findings
from ashlar.tables import show_parts

def run(asked) -> None:
    if not asked.pid.isdecimal() or not 0 < int(asked.pid) < 1 << 31:
        raise BadInput(f"{asked.pid!r} is no process's number; give that of a parent that forks")
    if asked.form not in (forms.TERMINAL, *_MAKERS):
        raise BadInput(f"--form has {asked.form!r}; give one of {','.join((forms.TERMINAL, *_MAKERS))}")
    if asked.output and asked.form == forms.TERMINAL:
        raise BadInput("--output names a file, and --form terminal writes none; add --form html or json")
    forms.check_lines(asked.lines)
    found = tree.look(int(asked.pid))
    if asked.form == forms.TERMINAL:
        show_parts(tables.facts(found), tables.tables(found, asked.lines), found.warnings)
    else:
        forms.tell(forms.write(found, [asked.form], _MAKERS, asked.output or f"shared-{asked.pid}"))


def as_json(found: Findings) -> str:
    """Amounts in bytes; what was written in pages."""
    return json.dumps({"page_bytes": PAGE_BYTES, "warnings": found.warnings, "processes": [asdict(m) for m in found.members]}, indent=1) + "\n"


_MAKERS = {"html": {".html": page.render}, "json": {".json": as_json}}
