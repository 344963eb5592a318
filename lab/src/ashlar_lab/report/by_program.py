"""Values beside each other. One table for each program has a row for each metric, a column for each variant, and memory over time as a small
picture; one for all has a row for each program and variant."""

from collections.abc import Sequence

from ashlar.chart import stretches
from ashlar.tables import Table
from ashlar_lab.experiment.model import Arm, Experiment
from ashlar_lab.fit.analysis import Analysis
from ashlar_lab.report import units
from ashlar_lab.report.charts import read_runs, typical_run
from ashlar_lab.report.tables import made
from ashlar_lab.store.run import Run

_USUAL = ("requests_per_s", "p50_ms", "p90_ms", "p99_ms", "request_ms_max", "wall_s", "cpu_s", "peak_mib", "final_mib", "gc_count", "gc_time_ms")
_SIDE_BY_SIDE = ("wall_s", "cpu_s", "peak_mib", "gc_count", "gc_time_ms")
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
    return made(f"program-{program.name}", program.name, variants, rows,
                f"20 % trimmed means over {units.counted(analysis.blocks, 'block')}; × is the paired ratio to {experiment.baseline}. "
                "RSS over time: all variants on the same two scales, from nothing to the highest RSS and from start to the longest run.", "programs")


def side_by_side(experiment: Experiment, analysis: Analysis) -> Table | None:
    """All programs in one table, a row for each program and variant. Where the headline does not ask for it the tables of ratios say the same."""
    metrics = [m for m in _SIDE_BY_SIDE if m in analysis.metrics]
    if "side-by-side" not in experiment.headline or experiment.sweeps() or len(experiment.variants) < 2 or not metrics:
        return None
    rows = [(f"{program.name} · {variant.name}", *(_cell(experiment, analysis, program.name, variant.name, m, "  × ", "  × 1.00") for m in metrics))
            for program in experiment.programs for variant in experiment.variants]
    return made("side-by-side", "Side by side", [units.title(m) for m in metrics], rows,
                f"20 % trimmed means over {analysis.blocks} blocks; × is the paired ratio to {experiment.baseline}.")


def _cell(experiment: Experiment, analysis: Analysis, program: str, variant: str, metric: str, times: str = " ×", baseline: str = "") -> str:
    """A value and its ratio."""
    level, ratio = analysis.level(program, variant, metric), analysis.ratio(program, variant, metric)
    if level is None:
        return "–"
    return units.level(level) + (baseline if variant == experiment.baseline else f"{times}{units.ratio(ratio.value)}" if ratio else "")


def memory_over_time(experiment: Experiment, runs: Sequence[Run], program: str) -> dict[str, str]:
    """Variant → the RSS of its typical run as a row of bars, each the highest reading of its stretch of time."""
    chosen = {v.name: typical_run(own).series for v in experiment.variants if (own := read_runs(runs, Arm(program, v.name, None)))}
    end = max((series[-1][0] for series in chosen.values()), default=0.0)
    top = max((mib for series in chosen.values() for _, mib, _ in series), default=0.0)
    return {name: _bars(series, end, top) for name, series in chosen.items()}


def _bars(series: Sequence[tuple[float, float, int]], end: float, top: float) -> str:
    highest = [mib for mib in stretches(series, end, _COLUMNS) if mib is not None]
    return "".join(_STEPS[min(7, int(8 * mib / top))] if top > 0 else _STEPS[0] for mib in highest)
