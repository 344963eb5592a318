"""The tables, as plain rows of text, ready for any form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ashlar_lab.experiment.model import Experiment
from ashlar_lab.fit.analysis import Analysis
from ashlar_lab.fit.trimmed import Estimate
from ashlar_lab.report import units

_SUMMARY = ("requests_per_s", "p50_ms", "p90_ms", "p99_ms", "p999_ms", "p100_ms")


@dataclass(frozen=True)
class Table:
    """A heading row and body rows; the first column is a label, the others are right-aligned."""

    name: str
    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


def tables(experiment: Experiment, analysis: Analysis) -> list[Table]:
    found = []
    if len(experiment.variants) > 1 and not experiment.sweeps() and len(experiment.programs) > 1:
        found += [t for m in _headline_metrics(experiment, analysis) if (t := _ratios_by_program(experiment, analysis, m))]
    for program in experiment.programs:
        found += _program_tables(experiment, analysis, program.name)
    if len(experiment.variants) > 1:
        found += [t for m in (experiment.space_metric, experiment.time_metric) if (t := _overheads(experiment, analysis, m))]
    noise = _noise(experiment, analysis)
    return found + ([noise] if noise else [])


def _headline_metrics(experiment: Experiment, analysis: Analysis) -> list[str]:
    chosen = experiment.figures or ("gc_count", "gc_time_ms", "pause_ms_max", "live_bytes")
    told = [m for m in chosen if m in analysis.metrics]
    served = [m for m in ("requests_per_s", "p99_ms") if m in analysis.metrics]
    return list(dict.fromkeys([experiment.time_metric, "wall_s", experiment.space_metric, *served, *told]))


def _ratios_by_program(experiment: Experiment, analysis: Analysis, metric: str) -> Table | None:
    """Rows are programs, columns variants: the baseline's value, then ratios to it."""
    others = [v.name for v in experiment.variants if v.name != experiment.baseline]
    rows = []
    for program in experiment.programs:
        base = analysis.level(program.name, experiment.baseline, metric)
        ratios = [analysis.ratio(program.name, name, metric) for name in others]
        if base or any(ratios):
            rows.append((program.name, units.number(base.mean.value) if base else "–", *(units.interval(r) for r in ratios)))
    if not rows:
        return None
    sums = {s.variant: s.ratio for s in analysis.summaries if s.metric == metric}
    if sums:
        rows.append(("geometric mean", "", *(units.interval(sums.get(name)) for name in others)))
    less = "more is better" if units.more_is_better(metric) else "less is better"
    return Table(f"ratios-{metric}", f"{units.title(metric)}: ratio to {experiment.baseline}",
                 ("", experiment.baseline, *others), tuple(rows), f"20 % trimmed means of paired ratios with 95 % intervals; {less}.")


def _program_tables(experiment: Experiment, analysis: Analysis, program: str) -> list[Table]:
    if experiment.sweeps():
        return [_sweep_table(experiment, analysis, program)]
    found = []
    base = experiment.variant(experiment.baseline)
    others = [v for v in experiment.variants if v.name != base.name]
    metrics = [m for m in analysis.metrics if analysis.level(program, base.name, m)]
    if len(others) > 1 or not others:
        rows = []
        for metric in metrics:
            row = [units.title(metric)]
            for variant in experiment.variants:
                level = analysis.level(program, variant.name, metric)
                row.append(units.number(level.mean.value) if level else "–")
            rows.append(tuple(row))
        return [Table(f"values-{program}", program, ("", *(v.name for v in experiment.variants)), tuple(rows), "20 % trimmed means over blocks.")]
    for variant in others:
        rows = []
        for metric in metrics:
            ratio = analysis.ratio(program, variant.name, metric)
            level, reference = analysis.level(program, variant.name, metric), analysis.level(program, base.name, metric)
            rows.append((units.title(metric), units.number(level.mean.value) if level else "–",
                         units.number(reference.mean.value), improvement(ratio, metric)))
        found.append(Table(f"values-{program}-{variant.name}", program, ("", variant.name, base.name, "Improvement"), tuple(rows),
                           "Improvement above 1.00x favours " + variant.name + "; 95 % interval in parentheses."))
    return found


def improvement(e: Estimate | None, metric: str) -> str:
    """`1.09x (1.05–1.13)`: above 1 favours the variant, whichever direction of the metric is the good one."""
    if e is None:
        return "–"
    better = (e.value, e.low, e.high) if units.more_is_better(metric) else (1 / e.value, 1 / e.high, 1 / e.low if e.low > 0 else float("inf"))
    value, low, high = (f"{v:.2f}" if v < 1000 else "∞" for v in better)
    return f"{value}x" if high == "∞" else f"{value}x ({low}–{high})"


def _sweep_table(experiment: Experiment, analysis: Analysis, program: str) -> Table:
    """Time and space of every variant at every knob value, as the points of the curves."""
    values = list(dict.fromkeys(v for variant in experiment.variants for v in variant.values))
    knobs = " / ".join(dict.fromkeys(v.knob for v in experiment.variants if v.knob))
    rows = []
    for value in values:
        row = [value]
        for variant in experiment.variants:
            own = value if variant.values else None
            time, space = (analysis.level(program, variant.name, m, own) for m in (experiment.time_metric, experiment.space_metric))
            row.append(f"{units.number(time.mean.value)} / {units.number(space.mean.value)}" if time and space else "–")
        rows.append(tuple(row))
    heading = f"{units.title(experiment.time_metric)} / {units.title(experiment.space_metric)}"
    return Table(f"sweep-{program}", f"{program}: {heading} at each {knobs}", (knobs, *(v.name for v in experiment.variants)), tuple(rows),
                 "20 % trimmed means over blocks. Equal knob values are not equal costs: compare the curves.")


def _overheads(experiment: Experiment, analysis: Analysis, metric: str) -> Table | None:
    rows = []
    for program in experiment.programs:
        own = {o.variant: o for o in analysis.overheads if o.program == program.name and o.metric == metric}
        if own:
            rows.append((program.name, *(_over(own.get(v.name)) for v in experiment.variants)))
    if not rows:
        return None
    at = ", each at its own best knob value" if experiment.sweeps() else ""
    return Table(f"overhead-{metric}", f"{units.title(metric, False)}: overhead over the best variant{at}",
                 ("", *(v.name for v in experiment.variants)), tuple(rows), "Per program; +0 % is the best. 95 % interval in brackets.")


def _over(o) -> str:
    if o is None:
        return "–"
    if o.variant == o.best:
        return "+0 %"
    if o.over.n < 2:
        return units.percent(o.over.value)
    return f"{units.percent(o.over.value)} [{units.percent(o.over.low)}, {units.percent(o.over.high)}]"


def _noise(experiment: Experiment, analysis: Analysis) -> Table | None:
    metrics = [m for m in (experiment.time_metric, "wall_s", experiment.space_metric, "mean_mib") if any(r.metric == m for r in analysis.noise)]
    metrics = list(dict.fromkeys(metrics))
    if not metrics:
        return None
    rows = []
    for program in experiment.programs:
        own = {r.metric: r.ratio for r in analysis.noise if r.program == program.name}
        rows.append((program.name, *(units.interval(own.get(m)) for m in metrics)))
    return Table("noise", f"A/A arm: {experiment.baseline} against itself", ("", *(units.title(m, False) for m in metrics)), tuple(rows),
                 "Whatever differs from 1 here is noise.")
