"""The comment of `ashlar-lab ci`: what a reviewer needs to see, as Markdown that can be posted as it is."""

from collections.abc import Sequence

from ashlar.said import markdown as line
from ashlar.tables import Table, table_text
from ashlar_lab.fit.difference import BETTER, SAME, UNDECIDED, WORSE, Difference
from ashlar_lab.report import units
from ashlar_lab.report.difference import floor_sentence

_ORDER = (WORSE, UNDECIDED, BETTER, SAME)
_WORDS = {WORSE: "worse", BETTER: "better", SAME: "no change that matters", UNDECIDED: "undecided"}

_APART = ("The two were measured at different times, and the machine may have been faster at one of them by more than {}; "
          "`--base` measures both in the same blocks.")


def verdict(found: Sequence[Difference], failures: Sequence[str], threshold: float) -> str:
    """One sentence."""
    allowed = units.percent(threshold, signed=False)
    worse = [d for d in found if d.judged == WORSE]
    if failures:
        return f"Fails: {failures[0]}."
    if worse:
        return f"Worse by more than {allowed}: " + ", ".join(f"{units.in_sentence(d.metric)} of {d.program} {units.interval(d.ratio)}" for d in worse) + "."
    if undecided := [d for d in found if d.judged == UNDECIDED]:
        return f"Nothing is shown to be worse by more than {allowed}; undecided figures {'need more blocks' if any(d.ratio.n for d in undecided) else 'were not measured'}."
    return f"Nothing is worse by more than {allowed}."


def markdown(found: Sequence[Difference], failures: Sequence[str], threshold: float, base: str, head: str, facts: str, warnings: Sequence[str],
             machine: Sequence[tuple[str, str]], levels: dict[tuple[str, str], tuple[str, str]], at_once: bool = True) -> str:
    """The whole comment. `levels` has (program, metric) → (value of the base, value of the head); `at_once` says whether both were measured in
    the same blocks."""
    ordered = sorted(found, key=lambda d: _ORDER.index(d.judged))
    rows = tuple((f"{d.program}, {units.title(d.metric)}", *levels.get((d.program, d.metric), ("–", "–")), units.interval(d.ratio), _WORDS[d.judged]) for d in ordered)
    parts = [f"### {line(f'{head} against {base}')}", "", f"**{line(verdict(found, failures, threshold))}**", ""]
    parts += [f"- {line(f)}" for f in failures] + ([""] if failures else [])
    if not at_once:
        parts += [_APART.format(units.percent(threshold, signed=False)), ""]
    if rows:
        parts += [table_text(Table("ci", "", ("", base, head, "ratio", f"at {units.percent(threshold, signed=False)}"), rows)), ""]
    parts += [f"{facts} Ratios have 95 % intervals; below 1 is less. A figure is worse or better only when its whole interval lies beyond the threshold.{floor_sentence(found)}", ""]
    parts += ["<details><summary>Machine and warnings</summary>", ""]
    parts += [f"- {line(w)}" for w in warnings] + [f"- {line(f'{key}: {value}')}" for key, value in machine]
    return "\n".join([*parts, "", "</details>"]) + "\n"
