"""One table with everything beside everything: a row per program and variant, each value with its ratio."""

from __future__ import annotations

from ashlar_lab.experiment.model import Experiment
from ashlar_lab.fit.analysis import Analysis
from ashlar_lab.report import units
from ashlar.tables import Table

_METRICS = ("wall_s", "cpu_s", "peak_mib", "gc_count", "gc_time_ms")


def table(experiment: Experiment, analysis: Analysis) -> Table | None:
    """For experiments without knobs that ask for it as a headline; otherwise the tables of ratios say the same."""
    metrics = [m for m in _METRICS if m in analysis.metrics]
    if "side-by-side" not in experiment.headline or experiment.sweeps() or len(experiment.variants) < 2 or not metrics:
        return None
    rows = []
    for program in experiment.programs:
        for variant in experiment.variants:
            rows.append((f"{program.name} · {variant.name}", *(_cell(experiment, analysis, program.name, variant.name, m) for m in metrics)))
    return Table("side-by-side", "Side by side", ("", *(units.title(m) for m in metrics)), tuple(rows),
                 f"20 % trimmed means over {analysis.blocks} blocks; × is the paired ratio to {experiment.baseline}.")


def _cell(experiment: Experiment, analysis: Analysis, program: str, variant: str, metric: str) -> str:
    level = analysis.level(program, variant, metric)
    if level is None:
        return "–"
    if variant == experiment.baseline:
        return f"{units.number(level.mean.value)}  × 1.00"
    ratio = analysis.ratio(program, variant, metric)
    return units.number(level.mean.value) + (f"  × {units.ratio(ratio.value)}" if ratio else "")
