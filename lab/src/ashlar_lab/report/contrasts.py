"""The table of the experiment's named questions, with the goals beside the answers."""

import math

from ashlar.tables import Table
from ashlar_lab.experiment.model import Contrast, Experiment
from ashlar_lab.fit.analysis import Analysis
from ashlar_lab.fit.contrasts import MET, MISSED, OPEN, Answer
from ashlar_lab.report import units
from ashlar_lab.report.tables import made

_MARKS = {MET: "✓", MISSED: "✗", OPEN: "?"}


def table(experiment: Experiment, analysis: Analysis) -> Table | None:
    """Rows are programs; each contrast is a column, followed by its goals if any program has one."""
    told = {(a.contrast, a.program): a for a in analysis.answers}
    columns = [c for c in experiment.contrasts if any(c.name == name for name, _ in told)]
    with_goals = {a.contrast for a in analysis.answers if a.goal is not None}
    head, rows = [], []
    for contrast in columns:
        unit, _ = _unit_and_scale(contrast)
        head += [f"{contrast.name} ({unit})" if unit else contrast.name, *(["goal"] if contrast.name in with_goals else [])]
    for program in [p.name for p in experiment.programs] + [None]:
        row = [program or "geometric mean"]
        for contrast in columns:
            answer = told.get((contrast.name, program))
            row += [estimate(answer, contrast), *([goal(answer, contrast)] if contrast.name in with_goals else [])]
        if any((c.name, program) in told for c in columns):
            rows.append(tuple(row))
    marks = " Goal: the most it may be; ✓ the whole interval is at or below it, and the value by more than the baseline differs from itself; ✗ so above it; ? neither." if with_goals else ""
    return made("contrasts", "Answers and goals" if with_goals else "Answers", head, rows,
                f"20 % trimmed means over {analysis.blocks} blocks of interleaved pairs, ± half of the 95 % interval.{marks}")


def estimate(answer: Answer | None, contrast: Contrast) -> str:
    """`0.68 ±0.02`; the wider side of the interval counts."""
    if answer is None:
        return "–"
    e, (_, scale) = answer.estimate, _unit_and_scale(contrast)
    half = max(e.high - e.value, e.value - e.low) * scale
    if not math.isfinite(half):
        return units.interval(e, lambda value: units.ratio(value * scale))
    digits = 3 if half < 0.01 else 2
    sign = "+" if contrast.difference else ""
    return f"{e.value * scale:{sign}.{digits}f} ±{half:.{digits}f}"


def goal(answer: Answer | None, contrast: Contrast) -> str:
    if answer is None or answer.goal is None:
        return ""
    _, scale = _unit_and_scale(contrast)
    return f"{answer.goal * scale:.2f} {_MARKS[answer.judged]}"


def _unit_and_scale(contrast: Contrast) -> tuple[str, float]:
    """Ratios have no unit. Differences of seconds are small and shown in milliseconds."""
    unit = units.unit(contrast.metric) if contrast.difference else ""
    return ("ms", 1000.0) if unit == "s" else (unit, 1.0)
