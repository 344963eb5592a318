"""The tables, as plain rows of text, ready for any form."""

from __future__ import annotations

import math

from ashlar.tables import Table
from ashlar_lab.experiment.model import Experiment
from ashlar_lab.fit.analysis import Analysis
from ashlar_lab.fit.gate import MARGIN
from ashlar_lab.fit.trimmed import Estimate
from ashlar_lab.report import units
from ashlar_lab.report.units import p_value


def tables(experiment: Experiment, analysis: Analysis) -> list[Table]:
    found = []
    if len(experiment.variants) > 1 and not experiment.sweeps() and len(experiment.programs) > 1:
        found += [t for m in _headline_metrics(experiment, analysis) if (t := _ratios_by_program(experiment, analysis, m))]
    for program in experiment.programs:
        found += _program_tables(experiment, analysis, program.name)
    if len(experiment.variants) > 1:
        found += [t for m in (experiment.space_metric, experiment.time_metric) if (t := _overheads(experiment, analysis, m))]
        bounds = lower_bound_table(experiment, analysis)
        found += [bounds] if bounds else []
    noise = _noise(experiment, analysis)
    return found + ([noise] if noise else [])


def _headline_metrics(experiment: Experiment, analysis: Analysis) -> list[str]:
    chosen = experiment.figures or ("gc_count", "gc_time_ms", "pause_ms_max", "live_bytes")
    told = [m for m in chosen if m in analysis.metrics]
    served = analysis.served()
    return list(dict.fromkeys([experiment.time_metric, "wall_s", experiment.space_metric, *served, *told]))


def _ratios_by_program(experiment: Experiment, analysis: Analysis, metric: str) -> Table | None:
    """Rows are programs, columns variants: the baseline's value, then ratios to it."""
    others = [v.name for v in experiment.variants if v.name != experiment.baseline]
    rows = []
    for program in experiment.programs:
        base = analysis.level(program.name, experiment.baseline, metric)
        ratios = [analysis.ratio(program.name, name, metric) for name in others]
        if base or any(ratios):
            rows.append((program.name, units.level(base), *(units.interval(r) for r in ratios)))
    if not rows:
        return None
    sums = {s.variant: s.ratio for s in analysis.summaries if s.metric == metric}
    if sums:
        rows.append(("geometric mean", "", *(units.interval(sums.get(name)) for name in others)))
    less = "more is better" if units.more_is_better(metric) else "less is better"
    group = "ratios" if metric in (experiment.time_metric, experiment.space_metric, *experiment.figures) else ""
    return Table(f"ratios-{metric}", f"{units.title(metric)}: ratio to {experiment.baseline}",
                 ("", experiment.baseline, *others), tuple(rows), f"20 % trimmed means of paired ratios with 95 % intervals; {less}.", group)


def _program_tables(experiment: Experiment, analysis: Analysis, program: str) -> list[Table]:
    if experiment.sweeps():
        return [_sweep_table(experiment, analysis, program), *_curve_tables(experiment, analysis, program)]
    base = experiment.variant(experiment.baseline)
    others = [v for v in experiment.variants if v.name != base.name]
    metrics = [m for m in analysis.metrics if analysis.level(program, base.name, m)]
    if len(others) != 1:
        rows = [(units.title(metric), *(units.level(analysis.level(program, variant.name, metric)) for variant in experiment.variants)) for metric in metrics]
        return [Table(f"values-{program}", program, ("", *(v.name for v in experiment.variants)), tuple(rows), "20 % trimmed means over blocks.")]
    variant = others[0]
    rows = [(units.title(metric), *(units.level(analysis.level(program, name, metric)) for name in (variant.name, base.name)),
             improvement(analysis.ratio(program, variant.name, metric), metric)) for metric in metrics]
    return [Table(f"values-{program}-{variant.name}", program, ("", variant.name, base.name, "Improvement"), tuple(rows),
                  "Improvement above 1.00x favours " + variant.name + "; 95 % interval in parentheses.")]


def improvement(e: Estimate | None, metric: str) -> str:
    """`1.09x (1.05–1.13)`: above 1 favours the variant, whichever direction of the metric is the good one."""
    if e is None:
        return "–"
    better = (e.value, e.low, e.high) if units.more_is_better(metric) else (1 / e.value, 1 / e.high, 1 / e.low if e.low > 0 else float("inf"))
    value, low, high = (f"{v:.2f}" if v < 1000 else "∞" for v in better)
    return f"{value}x ({units.TOO_FEW})" if not math.isfinite(e.high) else f"{value}x ({low}–{high})"


def _sweep_table(experiment: Experiment, analysis: Analysis, program: str) -> Table:
    """Time and space of every variant at every knob value, as the points of the curves."""
    settings = knob_settings(experiment)
    knobs = " / ".join(dict.fromkeys(knob for knob, _ in settings))
    rows = []
    for knob, value in settings:
        row = [knob_label(settings, knob, value)]
        for variant in experiment.variants:
            own = variant.value_at(knob, value)
            shown = own is not None or not variant.values
            time, space = (analysis.level(program, variant.name, m, own) if shown else None for m in (experiment.time_metric, experiment.space_metric))
            row.append(f"{units.number(time.mean.value)} / {units.number(space.mean.value)}" if time and space else "–")
        rows.append(tuple(row))
    heading = f"{units.title(experiment.time_metric)} / {units.title(experiment.space_metric)}"
    return Table(f"sweep-{program}", f"{program}: {heading} at each {knobs}", (knobs, *(v.name for v in experiment.variants)), tuple(rows),
                 "20 % trimmed means over blocks. Equal knob values are not equal costs: compare the curves.", "curves")


def knob_settings(experiment: Experiment) -> list[tuple[str, str]]:
    """Every (knob, value) that some variant has, each once."""
    found: list[tuple[str, str]] = []
    for index, variant in enumerate(experiment.variants):
        before = experiment.variants[:index]
        found += [(variant.knob, v) for v in variant.values if all(o.value_at(variant.knob, v) is None for o in before)]
    return found


def knob_label(settings: list[tuple[str, str]], knob: str, value: str) -> str:
    """The value alone where all are of one knob."""
    return value if len({k for k, _ in settings}) == 1 else f"{knob}={value}"


def _curve_tables(experiment: Experiment, analysis: Analysis, program: str) -> list[Table]:
    """Parameters of the curves, then every comparison with the baseline."""
    found = []
    rows = []
    time, space = units.unit(experiment.time_metric), units.unit(experiment.space_metric)
    for c in (c for c in analysis.curves if c.program == program):
        fit = f"model, points within {units.percent(c.worst_misfit, signed=False)}" if c.form == "model" else f"envelope: {c.reason}"
        p = "–" if c.p_value is None else p_value(c.p_value).removeprefix("p ")
        rows.append((c.variant, *(units.interval(getattr(c, k), units.number) for k in "abc"), p, fit))
    if rows:
        found.append(Table(f"parameters-{program}", f"{program}: the curves (time − a)(space − c) = b",
                           ("", f"a: time without collection ({time})", f"b: cost of collecting ({time}·{space})", f"c: least space ({space})", "lack-of-fit p", "form"), tuple(rows),
                           "95 % t intervals over blocks. Parameters are given only where the model stands. Lack-of-fit p: the chance of so large "
                           f"a misfit if the model were right to {100 * MARGIN:.0f} %."))
    for c in (c for c in analysis.comparisons if c.program == program):
        rows = [(f"time at {a.place:.0f} {a.unit}", units.interval(a.ratio)) for a in c.time_ratios]
        rows += [(f"space at {units.number(a.place)} {a.unit}", units.interval(a.ratio)) for a in c.space_ratios]
        if c.area:
            rows.append(("mean time ratio over the common space", units.interval(c.area)))
        if c.delta_a:
            rows.append((f"Δa ({c.delta_a.unit})", units.interval(c.delta_a, units.number)))
        if c.delta_c:
            rows.append((f"Δc ({c.delta_c.unit})", units.interval(c.delta_c, units.number)))
        if c.overlap:
            rows += [("faster at every common space", p_value(c.better_p)),
                     ("the same by at least 2 %", p_value(c.better_by_margin_p)),
                     ("slower at every common space", p_value(c.worse_p)),
                     ("the curves cross", p_value(c.cross_p))]
        if c.crosses():
            rows.append((f"they cross between ({c.space_unit})", f"{c.crossing[0]:.0f} and {c.crossing[1]:.0f}"))
        if rows:
            found.append(Table(f"comparison-{program}-{c.first}", f"{program}: {c.first} relative to {c.second}", ("", "ratio or value"), tuple(rows),
                               (c.note + ". " if c.note else "") + "Only where both were measured; below 1 favours " + c.first + ". p: the chance of data that speak so clearly for a statement that is not true.", "curves"))
    return found


def lower_bound_table(experiment: Experiment, analysis: Analysis) -> Table | None:
    """Rows are programs, or knob values of a program; columns variants."""
    if not analysis.lower_bounds:
        return None
    rows = []
    for program in experiment.programs:
        own = {(b.variant, b.value): b for b in analysis.lower_bounds if b.program == program.name}
        settings = knob_settings(experiment)
        for knob, value in settings or [(None, None)]:
            label = program.name if value is None else f"{program.name} at {knob_label(settings, knob, value)}"
            cells = [own.get((v.name, v.value_at(knob, value))) if v.values else own.get((v.name, None)) for v in experiment.variants]
            rows.append((label, *(units.interval(b.ratio) if b else "–" for b in cells)))
    how = ("totals minus the collector time that programs reported" if all(b.attributed for b in analysis.lower_bounds)
           else "the fastest total, as programs did not all report gc_time_ms: a weaker bound")
    return Table("lower-bound", f"{units.title(experiment.time_metric, False)} over the lower bound", ("", *(v.name for v in experiment.variants)), tuple(rows),
                 f"At least this many times the cost of the program without memory management. Baseline per program: the least of {how}.")


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
    return "+0 %" if o.variant == o.best else units.interval(o.over, units.percent)


def _noise(experiment: Experiment, analysis: Analysis) -> Table | None:
    usual = dict.fromkeys((experiment.time_metric, "wall_s", experiment.space_metric, "mean_mib"))
    metrics = [m for m in usual if any(r.metric == m for r in analysis.noise)]
    if not metrics:
        return None
    told = {(r.program, r.metric): r.ratio for r in analysis.noise}
    rows = [(program.name, *(units.interval(told.get((program.name, m))) for m in metrics)) for program in experiment.programs]
    return Table("noise", f"A/A arm: {experiment.baseline} against itself", ("", *(units.title(m, False) for m in metrics)), tuple(rows),
                 "Whatever differs from 1 here is noise.")
