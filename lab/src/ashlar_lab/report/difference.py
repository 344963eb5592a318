"""What is said of differences: the table of `ashlar-lab diff`, and the comment of `ashlar-lab ci`, Markdown that can be posted as it is."""

from collections import Counter
from collections.abc import Sequence

from ashlar.said import markdown
from ashlar.tables import Table, table_text
from ashlar_lab.experiment.model import Arm
from ashlar_lab.fit.difference import BETTER, SAME, UNDECIDED, WORSE, Difference
from ashlar_lab.fit.trimmed import LEAST_BLOCKS
from ashlar_lab.report import units

# What a reviewer reads, the most urgent first.
_WORDS = {WORSE: "worse", UNDECIDED: "undecided", BETTER: "better", SAME: "no change that matters"}


def text(found: Sequence[Difference], threshold: float, first: str, second: str) -> str:
    """The worst first, then a sentence that can stand in a log."""
    order = sorted(found, key=lambda d: (d.judged != WORSE, d.judged != UNDECIDED))
    rows = tuple((Arm(d.program, d.variant, d.value).label(), units.title(d.metric, False), units.interval(d.ratio), d.judged) for d in order)
    counts = Counter(d.judged for d in found)
    table = Table("difference", "", ("", "metric", f"{second} / {first}", f"at {units.percent(threshold, signed=False)}"), rows)
    said = ", ".join(f"{n} {kind}" for kind, n in counts.most_common())
    more = f" An undecided one needs more blocks: its interval reaches past the threshold without clearing it, or it has fewer than {LEAST_BLOCKS} blocks and no interval." if counts[UNDECIDED] else ""
    return f"{table_text(table)}\n\n{said}.{more}{_floors(found)}"


def comment(found: Sequence[Difference], failures: Sequence[str], threshold: float, base: str, head: str, facts: str, warnings: Sequence[str],
            machine: Sequence[tuple[str, str]], levels: dict[tuple[str, str], tuple[str, str]]) -> str:
    """What a reviewer needs to see. `levels` has (program, metric) → (value of the base, value of the head)."""
    ordered = sorted(found, key=lambda d: list(_WORDS).index(d.judged))
    rows = tuple((f"{d.program}, {units.title(d.metric)}", *levels.get((d.program, d.metric), ("–", "–")), units.interval(d.ratio), _WORDS[d.judged]) for d in ordered)
    parts = [f"### {markdown(f'{head} against {base}')}", "", f"**{markdown(_verdict(found, failures, threshold))}**", ""]
    parts += [f"- {markdown(f)}" for f in failures] + ([""] if failures else [])
    if rows:
        parts += [table_text(Table("ci", "", ("", base, head, "ratio", f"at {units.percent(threshold, signed=False)}"), rows)), ""]
    parts += [f"{facts} Ratios have 95 % intervals; below 1 is less. A figure is worse or better only when its whole interval lies beyond the threshold.{_floors(found)}", ""]
    parts += ["<details><summary>Machine and warnings</summary>", ""]
    parts += [f"- {markdown(w)}" for w in warnings] + [f"- {markdown(f'{key}: {value}')}" for key, value in machine]
    return "\n".join([*parts, "", "</details>"]) + "\n"


def _verdict(found: Sequence[Difference], failures: Sequence[str], threshold: float) -> str:
    """One sentence."""
    allowed = units.percent(threshold, signed=False)
    if failures:
        return f"Fails: {failures[0]}."
    if worse := [d for d in found if d.judged == WORSE]:
        return f"Worse by more than {allowed}: " + ", ".join(f"{units.in_sentence(d.metric)} of {d.program} {units.interval(d.ratio)}" for d in worse) + "."
    if any(d.judged == UNDECIDED for d in found):
        return f"Nothing is shown to be worse by more than {allowed}; undecided figures need more blocks."
    return f"Nothing is worse by more than {allowed}."


def _floors(found: Sequence[Difference]) -> str:
    """The noise floors that the judgements obey; empty where the A/A arm shows none."""
    floors = {d.metric: d.floor for d in found if d.floor > 0}
    if not floors:
        return ""
    told = ", ".join(f"{units.percent(floor, signed=False)} in {units.in_sentence(metric)}" for metric, floor in floors.items())
    return f" The baseline differs from itself by {told}: what clears the threshold by no more than that is undecided."
