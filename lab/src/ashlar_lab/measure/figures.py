"""Figures a program reports about itself.

The lab sets ASHLAR_REPORT_FILE to a fresh path. A program may append lines of JSON objects to that file, such as
`{"gc_count": 12, "gc_time_ms": 34.5, "live_bytes": 1048576, "pause_ms_max": 1.2}`; later lines win. Numbers
become columns of the report; the unit is the end of the name. What the lab measures itself stands, whatever a program says.
"""

import json
import math
import re
from collections.abc import Mapping
from pathlib import Path

VARIABLE = "ASHLAR_REPORT_FILE"
# But for this: the program knows when its work had ended, and the lab only when its process did.
_KNOWS_BETTER = ("final_mib",)
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


def beside_measured(told: dict[str, float], measured: Mapping[str, float]) -> tuple[dict[str, float], list[str]]:
    """The figures that stand beside what was measured, and a complaint for each of the others."""
    double = [name for name in told if name in measured and name not in _KNOWS_BETTER]
    return ({name: value for name, value in told.items() if name not in double},
            [f"figure {name!r}: the lab measures that itself; the program's {told[name]:g} is left out" for name in double])
