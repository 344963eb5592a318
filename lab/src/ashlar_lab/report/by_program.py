"""One table for each program: a row for each metric, a column for each variant, and memory over time as a small picture."""

from __future__ import annotations

from collections.abc import Sequence

from ashlar_lab.experiment.model import MAIN, Experiment
from ashlar_lab.fit.analysis import Analysis
from ashlar_lab.report import units
from ashlar_lab.report.charts import typical_run
from ashlar.tables import Table
from ashlar_lab.store.run import OK, Run

_USUAL = ("requests_per_s", "p50_ms", "p90_ms", "p99_ms", "request_ms_max", "wall_s", "cpu_s", "peak_mib", "final_mib", "gc_count", "gc_time_ms")
_STEPS = "▁▂▃▄▅▆▇█"
_COLUMNS = 20


def tables(experiment: Experiment, runs: Sequence[Run], analysis: Analysis) -> list[Table]:
    """For experiments without knobs whose headline asks for programs."""
    if "programs" not in experiment.headline or experiment.sweeps():
        return []
    return [t for p in experiment.programs if (t := _table(experiment, runs, analysis, p))]


def _table(experiment: Experiment, runs: Sequence[Run], analysis: Analysis, program) -> Table | None:
    variants = [v.name for v in experiment.variants]
    rows = []
    for metric in dict.fromkeys((*(experiment.metrics or _USUAL), *program.figures)):
        levels = [analysis.level(program.name, name, metric) for name in variants]
        if any(levels):
            rows.append((units.title(metric), *(_cell(experiment, analysis, program.name, name, metric) for name in variants)))
    pictures = memory_over_time(experiment, runs, program.name)
    rows += [("RSS over time", *(pictures.get(name, "–") for name in variants))] if pictures else []
    if not rows:
        return None
    return Table(f"program-{program.name}", program.name, ("", *variants), tuple(rows),
                 f"20 % trimmed means over {analysis.blocks} block{'s' if analysis.blocks != 1 else ''}; × is the paired ratio to {experiment.baseline}. "
                 "RSS over time: all variants on the same two scales, from nothing to the highest RSS and from start to the longest run.", "programs")


def _cell(experiment: Experiment, analysis: Analysis, program: str, variant: str, metric: str) -> str:
    level = analysis.level(program, variant, metric)
    if level is None:
        return "–"
    ratio = analysis.ratio(program, variant, metric)
    return units.number(level.mean.value) + (f" ×{units.ratio(ratio.value)}" if ratio else "")


def memory_over_time(experiment: Experiment, runs: Sequence[Run], program: str) -> dict[str, str]:
    """Variant → the RSS of its typical run as a row of bars, each the highest reading of its stretch of time."""
    chosen = {}
    for variant in experiment.variants:
        own = [r for r in runs if r.arm == (program, variant.name, None, MAIN) and r.block >= 0 and r.state == OK and len(r.series) > 1]
        if own:
            chosen[variant.name] = typical_run(own).series
    if not chosen:
        return {}
    end = max(series[-1][0] for series in chosen.values())
    top = max(mib for series in chosen.values() for _, mib, _ in series)
    return {name: _bars(series, end, top) for name, series in chosen.items()}


def _bars(series: Sequence[tuple[float, float, int]], end: float, top: float) -> str:
    highest: list[float | None] = [None] * _COLUMNS
    for t, mib, _ in series:
        at = min(_COLUMNS - 1, int(_COLUMNS * t / end)) if end > 0 else 0
        highest[at] = max(mib, highest[at] or 0.0)
    last = max(i for i, mib in enumerate(highest) if mib is not None)
    for i in range(1, last):  # a stretch without a reading is as the one before
        highest[i] = highest[i - 1] if highest[i] is None else highest[i]
    return "".join(_STEPS[min(7, int(8 * (mib or 0.0) / top))] if top > 0 else _STEPS[0] for mib in highest[:last + 1])
