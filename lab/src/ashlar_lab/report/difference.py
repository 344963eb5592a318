"""The table of `ashlar-lab diff`."""

import math
from collections import Counter
from collections.abc import Sequence

from ashlar.tables import Table, table_text
from ashlar_lab.experiment.model import Arm
from ashlar_lab.fit.difference import UNDECIDED, WORSE, Difference
from ashlar_lab.fit.trimmed import LEAST_BLOCKS
from ashlar_lab.report import units


def text(found: Sequence[Difference], threshold: float, first: str, second: str) -> str:
    """The worst first, then a sentence that can stand in a log."""
    order = sorted(found, key=lambda d: (d.judged != WORSE, d.judged != UNDECIDED))
    rows = tuple((Arm(d.program, d.variant, d.value).label(), units.title(d.metric, False),
                  units.interval(d.ratio), d.judged) for d in order)
    counts = Counter(d.judged for d in found)
    table = Table("difference", "", ("", "metric", f"{second} / {first}", f"at {units.percent(threshold, signed=False)}"), rows)
    said = ", ".join(f"{n} {kind}" for kind, n in counts.most_common())
    undecided = [d for d in found if d.judged == UNDECIDED]
    more = f" An undecided one needs more blocks: its interval reaches past the threshold without clearing it, or it has fewer than {LEAST_BLOCKS} blocks and no interval." \
        if any(d.ratio.n for d in undecided) else ""
    more += "" if all(d.ratio.n for d in undecided) else f" Where it says {units.NOT_MEASURED}, one of the two has no value."
    failed = "".join(f"\n{second}: {told}." for told in dict.fromkeys(d.failed for d in found if d.failed))
    return f"{table_text(table)}\n{failed}\n{said}.{more}{floor_sentence(found)}"


def floor_sentence(found: Sequence[Difference]) -> str:
    """The noise floors that the judgements obey; empty where the A/A arm shows none."""
    floors = {d.metric: d.floor for d in found if d.floor > 0}
    told = ", ".join(f"{units.percent(floor, signed=False)} in {units.in_sentence(metric)}" for metric, floor in floors.items() if math.isfinite(floor))
    unknown = ", ".join(units.in_sentence(metric) for metric, floor in floors.items() if math.isinf(floor))
    return ((f" The baseline differs from itself by {told}: what clears the threshold by no more than that is undecided." if told else "")
            + (f" No A/A arm says how far the baseline differs from itself in {unknown}, so that is undecided." if unknown else ""))
