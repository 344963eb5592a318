"""The table of `ashlar diff`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ashlar_lab.fit.difference import UNDECIDED, WORSE, Difference
from ashlar_lab.fit.trimmed import LEAST_BLOCKS
from ashlar_lab.report import units
from ashlar_lab.report.markdown import table_text
from ashlar_lab.report.tables import Table


def text(found: Sequence[Difference], threshold: float, first: str, second: str) -> str:
    """The worst first, then a sentence that can stand in a log."""
    order = sorted(found, key=lambda d: (d.judged != WORSE, d.judged != UNDECIDED))
    rows = tuple((f"{d.program} · {d.variant}" + (f" {d.value}" if d.value is not None else ""), units.title(d.metric, False),
                  units.interval(d.ratio), d.judged) for d in order)
    counts = Counter(d.judged for d in found)
    table = Table("difference", "", ("", "metric", f"{second} / {first}", f"at {units.percent(threshold, signed=False)}"), rows)
    said = ", ".join(f"{n} {kind}" for kind, n in counts.most_common())
    more = f" An undecided one needs more blocks: its interval reaches past the threshold without clearing it, or it has fewer than {LEAST_BLOCKS} blocks and no interval." if counts[UNDECIDED] else ""
    return f"{table_text(table)}\n\n{said}.{more}"
