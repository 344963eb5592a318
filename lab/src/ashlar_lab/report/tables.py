"""The tables, as plain rows of text, ready for any form."""

import math
from collections.abc import Iterable, Sequence

from ashlar.tables import Table
from ashlar_lab.experiment.model import Experiment
from ashlar_lab.fit.analysis import Analysis
from ashlar_lab.fit.gate import MARGIN
from ashlar_lab.fit.ratios import Ratio
from ashlar_lab.fit.trimmed import Estimate
from ashlar_lab.report import units
from ashlar_lab.report.units import p_value

_CHOSEN = " The same runs chose the best, which favours it; the intervals do not know that."


def tables(experiment: Experiment, analysis: Analysis) -> list[Table]:
    several = len(experiment.variants) > 1
    found = []
    # For one program its own table has the ratios; their intervals stand here alone.
    if several and not experiment.sweeps() and (len(experiment.programs) > 1 or "ratios" in experiment.headline):
        found += [_ratios_by_program(experiment, analysis, m) for m in _headline_metrics(experiment, analysis)]
    for program in experiment.programs:
        found += _program_tables(experiment, analysis, program.name)
    if several:
        found += [_overheads(experiment, analysis, m) for m in (experiment.space_metric, experiment.time_metric)]
        found.append(_lower_bounds(experiment, analysis))
    return [t for t in (*found, _noise(experiment, analysis)) if t]


def made(name: str, title: str, head: Sequence[str], rows: Iterable[tuple], note: str, group: str = "") -> Table | None:
    """A table whose first column has no heading; none where it has no rows."""
    rows = tuple(rows)
    return Table(name, title, ("", *head), rows, note, group) if rows else None


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
            rows.append((program.name, units.level(base), *map(units.interval, ratios)))
    sums = {s.variant: s.ratio for s in analysis.summaries if s.metric == metric}
    if rows and sums:
        rows.append(("geometric mean", "", *(units.interval(sums.get(name)) for name in others)))
    less = "more is better" if units.more_is_better(metric) else "less is better"
    group = "ratios" if metric in (experiment.time_metric, experiment.space_metric, *experiment.figures) else ""
    return made(f"ratios-{metric}", f"{units.title(metric)}: ratio to {experiment.baseline}", (experiment.baseline, *others), rows,
                f"20 % trimmed means of paired ratios with 95 % intervals; {less}.", group)


def _program_tables(experiment: Experiment, analysis: Analysis, program: str) -> list[Table]:
    if experiment.sweeps():
        return [_sweep_table(experiment, analysis, program), _pointwise_table(experiment, analysis, program), *_curve_tables(experiment, analysis, program)]
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
    better = e if units.more_is_better(metric) else e.inverse()
    value, low, high = (units.ratio(v if not v >= 1000 else math.inf) for v in (better.value, better.low, better.high))
    return f"{value}x ({units.TOO_FEW})" if units.too_few(e) else f"{value}x ({low}–{high})"


def _sweep_table(experiment: Experiment, analysis: Analysis, program: str) -> Table:
    """Time and space of every variant at every knob value, as the points of the curves."""
    settings = knob_settings(experiment)
    knobs = " / ".join(dict.fromkeys(knob for knob, _ in settings))
    rows = []
    for knob, value in settings:
        row = [knob_label(settings, knob, value)]
        for variant in experiment.variants:
            own = variant.value_at(knob, value)
            time, space = (analysis.level(program, variant.name, m, own) for m in (experiment.time_metric, experiment.space_metric))
            row.append(f"{units.number(time.mean.value)} / {units.number(space.mean.value)}" if time and space else "–")
        rows.append(tuple(row))
    heading = f"{units.title(experiment.time_metric)} / {units.title(experiment.space_metric)}"
    return Table(f"sweep-{program}", f"{program}: {heading} at each {knobs}", (knobs, *(v.name for v in experiment.variants)), tuple(rows),
                 "20 % trimmed means over blocks. Equal knob values are not equal costs: compare the curves.", "curves")


def _pointwise_table(experiment: Experiment, analysis: Analysis, program: str) -> Table | None:
    """Ratios to the baseline where no curves can be compared."""
    metrics = (experiment.time_metric, experiment.space_metric)
    told = {(r.variant, r.at_value, r.metric): r.ratio for r in analysis.ratios if r.program == program}
    rows = []
    for variant in experiment.without_curve():
        knob = experiment.compared_knob(variant)
        for value in dict.fromkeys(at for name, at, _ in told if name == variant.name):
            rows.append((f"{variant.name} at {knob}={value}" if value else variant.name, *(units.interval(told.get((variant.name, value, m))) for m in metrics)))
    return made(f"points-{program}", f"{program}: ratio to {experiment.baseline}", [units.title(m, False) for m in metrics], rows,
                "One of the two has no knob, so there are no two curves to compare. 20 % trimmed means of paired ratios with 95 % intervals; less is better.", "curves")


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


def _curve_tables(experiment: Experiment, analysis: Analysis, program: str) -> list[Table | None]:
    """Parameters of the curves, then every comparison with the baseline."""
    rows = []
    time, space = units.unit(experiment.time_metric), units.unit(experiment.space_metric)
    for c in (c for c in analysis.curves if c.program == program):
        fit = f"model, points within {units.percent(c.worst_misfit, signed=False)}" if c.form == "model" else f"envelope: {c.reason}"
        p = "–" if c.p_value is None else p_value(c.p_value).removeprefix("p ")
        rows.append((c.variant, *(units.interval(getattr(c, k), units.number) for k in "abc"), p, fit))
    found = [made(f"parameters-{program}", f"{program}: the curves (time − a)(space − c) = b",
                  (f"a: time without collection ({time})", f"b: cost of collecting ({time}·{space})", f"c: least space ({space})", "lack-of-fit p", "form"), rows,
                  "95 % t intervals over blocks. Parameters are given only where the model stands. Lack-of-fit p: the chance of so large "
                  f"a misfit if the model were right to {100 * MARGIN:.0f} %.")]
    for c in (c for c in analysis.comparisons if c.program == program):
        rows = [(f"time at {a.place:.0f} {a.unit}", units.interval(a.ratio)) for a in c.time_ratios]
        rows += [(f"space at {units.number(a.place)} {a.unit}", units.interval(a.ratio)) for a in c.space_ratios]
        if c.area:
            rows.append(("mean time ratio over the common space", units.interval(c.area)))
        rows += [(f"Δ{name} ({delta.unit})", units.interval(delta, units.number)) for name, delta in (("a", c.delta_a), ("c", c.delta_c)) if delta]
        if c.overlap:
            noise = f"; no verdict, as {units.noise(c.floor)}" if c.within_noise else ""
            rows += [("faster at every common space", p_value(c.better_p) + noise),
                     ("the same by at least 2 %", p_value(c.better_by_margin_p) + noise),
                     ("slower at every common space", p_value(c.worse_p) + noise),
                     ("the curves cross", p_value(c.cross_p))]
        if c.crosses():
            rows.append((f"they cross between ({c.space_unit})", f"{c.crossing[0]:.0f} and {c.crossing[1]:.0f}"))
        found.append(made(f"comparison-{program}-{c.first}", f"{program}: {c.first} relative to {c.second}", ("ratio or value",), rows,
                          (c.note + ". " if c.note else "") + "Only where both were measured; below 1 favours " + c.first + ". p: the chance of data that speak so clearly for a statement that is not true.", "curves"))
    return found


def _lower_bounds(experiment: Experiment, analysis: Analysis) -> Table | None:
    """Rows are programs, or knob values of a program; columns variants."""
    rows = []
    ratios = {(b.program, b.variant, b.value): b.ratio for b in analysis.lower_bounds}
    settings = knob_settings(experiment)
    for program in experiment.programs if ratios else ():
        for knob, value in settings or [(None, None)]:
            label = program.name if value is None else f"{program.name} at {knob_label(settings, knob, value)}"
            rows.append((label, *(units.interval(ratios.get((program.name, v.name, v.value_at(knob, value)))) for v in experiment.variants)))
    how = ("totals minus the collector time that programs reported" if all(b.attributed for b in analysis.lower_bounds)
           else "the fastest total, as programs did not all report gc_time_ms: a weaker bound")
    return made("lower-bound", f"{units.title(experiment.time_metric, False)} over the lower bound", [v.name for v in experiment.variants], rows,
                f"At least this many times the cost of the program without memory management. Baseline per program: the least of {how}.{_CHOSEN}")


def _overheads(experiment: Experiment, analysis: Analysis, metric: str) -> Table | None:
    rows = []
    for program in experiment.programs:
        own = {o.variant: "+0 %" if o.variant == o.best else units.interval(o.over, units.percent)
               for o in analysis.overheads if o.program == program.name and o.metric == metric}
        if own:
            rows.append((program.name, *(own.get(v.name, "–") for v in experiment.variants)))
    at = ", each at its own best knob value" if experiment.sweeps() else ""
    # What intervals over the best of several variants do not know. Of two variants an interval with two sides knows it. Where each variant is
    # at its own best knob value, the others are lucky too.
    by_chance = " The same runs chose the best: where 8 variants are equal, 1 in 10 of the others is shown to be over it."
    chosen = _CHOSEN if experiment.sweeps() else by_chance if len(experiment.variants) > 2 else ""
    return made(f"overhead-{metric}", f"{units.title(metric, False)}: overhead over the best variant{at}", [v.name for v in experiment.variants], rows,
                f"Per program; +0 % is the best. 95 % interval in brackets.{chosen}")


def shown_noise(experiment: Experiment, analysis: Analysis) -> list[Ratio]:
    """By how much the baseline differs from itself, in time and in space."""
    usual = (experiment.time_metric, "wall_s", experiment.space_metric, "mean_mib")
    return sorted((r for r in analysis.noise if r.metric in usual), key=lambda r: usual.index(r.metric))


def _noise(experiment: Experiment, analysis: Analysis) -> Table | None:
    told = {(r.program, r.metric): r.ratio for r in shown_noise(experiment, analysis)}
    metrics = list(dict.fromkeys(metric for _, metric in told))
    rows = [(program.name, *(units.interval(told.get((program.name, m))) for m in metrics)) for program in experiment.programs if metrics]
    return made("noise", f"A/A arm: {experiment.baseline} against itself", [units.title(m, False) for m in metrics], rows, "Whatever differs from 1 here is noise.")
