"""Figures a program reports about itself.

The lab sets ASHLAR_REPORT_FILE to a fresh path. A program may append lines of JSON objects to that file, such as
`{"gc_count": 12, "gc_time_ms": 34.5, "live_bytes": 1048576, "pause_ms_max": 1.2}`; later lines win. Numbers
become columns of the report; the unit is the end of the name.
"""

import json
import math
import re
from pathlib import Path

VARIABLE = "ASHLAR_REPORT_FILE"
_NAME = re.compile(r"[a-z][a-z0-9_]{0,47}")


def read_figures(path: Path) -> tuple[dict[str, float], list[str]]:
    """The figures in `path`, and a complaint for each line or name that cannot be used."""
    figures: dict[str, float] = {}
    complaints: list[str] = []
    text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            told, wanted = json.loads(line), "a JSON object"
        except json.JSONDecodeError:
            told, wanted = None, "JSON"
        if not isinstance(told, dict):
            complaints.append(f"line {number} of the program's figures is not {wanted}: {line[:60]!r}; it is left out")
            continue
        for name, value in told.items():
            if not _NAME.fullmatch(name) or isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
                complaints.append(f"figure {name!r}: {value!r} is not a number with a lower_case name; it is left out")
            else:
                figures[name] = float(value)
    return figures, complaints
