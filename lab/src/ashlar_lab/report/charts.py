"""Which pictures an experiment gets."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from ashlar.chart import Chart, thinned
from ashlar.files import file_name
from ashlar_lab.experiment.model import PERCENTILES, Arm, Experiment
from ashlar_lab.fit.analysis import Analysis
from ashlar_lab.report import units
from ashlar_lab.store.run import OK, Run

_FAINT_RUNS = 8


@dataclass(frozen=True)
class Figure:
    """A chart with the file name it is exported under and the sentence that goes with it."""

    name: str
    chart: Chart
    caption: str
    wide: bool = True


def figures(experiment: Experiment, runs: Sequence[Run], analysis: Analysis) -> list[Figure]:
    """All charts, the most telling first."""
    found: list[Figure] = []
    if not experiment.sweeps():
        for metric in dict.fromkeys((experiment.time_metric, experiment.space_metric)):
            found += _ratio_chart(experiment, analysis, metric)
    for program in experiment.programs if experiment.sweeps() else ():
        found += _curve_chart(experiment, analysis, program.name)
        found += _advantage_chart(experiment, analysis, program.name)
    for program in experiment.programs:
        found += _latency_chart(experiment, analysis, program.name)
        found += _memory_over_time(experiment, runs, analysis, program.name)
    return _apart(found)


def _apart(found: list[Figure]) -> list[Figure]:
    """Names of programs that differ in a blank or a bracket make one file name; each figure after the first gets a number."""
    taken: set[str] = set()
    for i, figure in enumerate(found):
        name, number = figure.name, 2
        while name in taken:
            name, number = f"{figure.name}-{number}", number + 1
        taken.add(name)
        found[i] = replace(figure, name=name)
    return found


def _ratio_chart(experiment: Experiment, analysis: Analysis, metric: str) -> list[Figure]:
    contenders = [(i, v.name) for i, v in enumerate(experiment.variants) if v.name != experiment.baseline]
    rows = [(program.name, [(i, name, e) for i, name in contenders if (e := analysis.ratio(program.name, name, metric)) and not math.isnan(e.value)])
            for program in experiment.programs]
    summary = {s.variant: s.ratio for s in analysis.summaries if s.metric == metric and not math.isnan(s.ratio.value)}
    if summary:
        rows.append(("geometric mean", [(i, n, summary[n]) for i, n in contenders if n in summary]))
    marks = [e for _, row in rows for _, _, e in row]
    if not marks:
        return []
    drawn = [e.value for e in marks if 0 < e.value < math.inf]
    ends = [v for e in marks for v in (e.low, e.high) if 0.05 < v < 20] + drawn + [1.0]
    low, high = min(ends) / 1.04, max(ends) * 1.04
    each = 16 * max(1, len(contenders)) + 10
    label = max(len(name) for name, _ in rows)
    chart = Chart((low, high), (len(rows), 0), title=f"{units.title(metric, False)} relative to {experiment.baseline}",
                  x_title="ratio; left of 1 is less", height=96 + each * len(rows), left=min(240, 24 + 7 * label), log_x=True)
    chart.vertical(1.0)
    for index, name in contenders:
        chart.legend(name, index)
    for r, (name, row) in enumerate(rows):
        chart.row(name, r + 0.5)
        for k, (index, variant, e) in enumerate(row):
            y = r + (k + 1) / (len(row) + 1)
            left, at, right = (min(max(v, low), high) for v in (e.low, e.value, e.high))
            if not units.too_few(e):
                chart.whisker(left, right, y, index)
            chart.point(at, y, index, f"{name}: {variant} {units.interval(e)} of {experiment.baseline}, {e.n} blocks")
    few = [units.too_few(e) for e in marks]
    intervals = f"; {units.TOO_FEW} for intervals" if all(few) else " with its 95 % interval" + (f", but where there are {units.TOO_FEW} for one" if any(few) else "")
    caption = (f"{units.title(metric, False)} of each variant divided by {experiment.baseline}'s in the same block: "
               f"20 % trimmed mean{intervals}.{'' if len(drawn) == len(marks) else ' A point at the edge is 0 or infinite.'}")
    return [Figure(f"ratio-{metric}", chart, caption)]


def _curve_chart(experiment: Experiment, analysis: Analysis, program: str) -> list[Figure]:
    """Space across, time up: the nearer to the lower left, the better."""
    curves = {c.variant: c for c in analysis.curves if c.program == program}
    if not curves:
        return []
    fixed = [(i, v.name, *(analysis.level(program, v.name, m) for m in (experiment.space_metric, experiment.time_metric)))
             for i, v in enumerate(experiment.variants) if not v.values]
    fixed = [f for f in fixed if all(level and math.isfinite(level.mean.value) for level in f[2:])]
    points = [p for c in curves.values() for p in c.points]
    spaces = [p.space.value for p in points] + [s.mean.value for _, _, s, _ in fixed]
    times = [p.time.value for p in points] + [t.mean.value for *_, t in fixed]
    times += [p.time.high for p in points if math.isfinite(p.time.high) and p.time.high < 2 * max(times)]
    chart = Chart((min(spaces) * 0.94, max(spaces) * 1.05), (min(0.9 * min(times), 0.0 if min(times) < 0.25 * max(times) else math.inf), max(times) * 1.05),
                  title=f"{program}: time against space", x_title=units.title(experiment.space_metric), y_title=units.title(experiment.time_metric), height=460)
    for index, variant, curve in ((i, v, curves[v.name]) for i, v in enumerate(experiment.variants) if v.name in curves):
        chart.legend(f"{variant.name}" + ("" if curve.form == "model" else " (envelope)"), index)
        top = chart.y.bounds[1]
        bounded = [at for at in zip(curve.grid_space, curve.grid_low, curve.grid_high) if math.isfinite(at[2])]
        if bounded:
            chart.band([s for s, _, _ in bounded], [min(v, top) for _, v, _ in bounded], [min(v, top) for _, _, v in bounded], index)
        chart.line(list(zip(curve.grid_space, (min(v, top) for v in curve.grid_time))), index, dashed=curve.form != "model")
        for p in curve.points:
            if math.isfinite(p.time.high):
                chart.cross((p.space.low, p.space.high), (p.time.low, min(p.time.high, top)), (p.space.value, p.time.value), index)
            chart.point(p.space.value, p.time.value, index, f"{variant.name} {variant.knob}={p.value}: {units.number(p.space.value)} "
                        f"{units.unit(experiment.space_metric)}, {units.number(p.time.value)} {units.unit(experiment.time_metric)}")
        for p, place in ((curve.points[0], {}), (curve.points[-1], {"dx": -22, "dy": 18})):
            chart.note(p.space.value, p.time.value, f"{variant.knob}={p.value}", index, **place)
    for index, name, space, time in fixed:
        chart.legend(name, index)
        chart.point(space.mean.value, time.mean.value, index, f"{name}: no knob", size=6)
    forms = "Lines are the fitted model" if all(c.form == "model" for c in curves.values()) else \
        "Full lines are the fitted model, broken lines the monotone envelope where the model was rejected"
    has_bands = any(math.isfinite(high) for c in curves.values() for high in c.grid_high)
    intervals = "bands and crosses are 95 % t intervals over blocks" if has_bands else f"{units.TOO_FEW} for intervals"
    ends = "" if not has_bands or all(c.form == "model" for c in curves.values()) else " At the ends of an envelope the band holds the truth in 91 to 94 of 100 cases, not in 95."
    return [Figure(f"curves-{file_name(program, 'program')}", chart, f"{forms}; {intervals}.{ends} Lower left is better.")]


def _advantage_chart(experiment: Experiment, analysis: Analysis, program: str) -> list[Figure]:
    """Time ratio at equal space, over the space that both curves cover."""
    own = [c for c in analysis.comparisons if c.program == program and c.time_ratios]
    ratios = [a.ratio for c in own for a in c.time_ratios if math.isfinite(a.ratio.value)]
    if not ratios:
        return []
    ends = [1.0] + [v for r in ratios for v in (r.value, r.low, r.high) if 0.02 < v < 50]
    spaces = [a.place for c in own for a in c.time_ratios]
    chart = Chart((min(spaces) * 0.97, max(spaces) * 1.03), (min(ends) * 0.94, max(ends) * 1.06), title=f"{program}: time ratio to {experiment.baseline} at equal space",
                  x_title=units.title(experiment.space_metric), y_title="time ratio", height=320)
    index_of = {v.name: i for i, v in enumerate(experiment.variants)}
    chart.line([(min(spaces), 1.0), (max(spaces), 1.0)], index_of[experiment.baseline], dashed=True)
    for c in own:
        index = index_of[c.first]
        chart.legend(c.first, index)
        at = [a for a in c.time_ratios if math.isfinite(a.ratio.value)]
        bounded = [a for a in at if math.isfinite(a.ratio.high)]
        chart.band([a.place for a in bounded], [max(a.ratio.low, chart.y.bounds[0]) for a in bounded], [min(a.ratio.high, chart.y.bounds[1]) for a in bounded], index)
        chart.line([(a.place, a.ratio.value) for a in at], index)
        for a in at:
            chart.point(a.place, a.ratio.value, index, f"at {a.place:.0f} {a.unit}: {units.interval(a.ratio)}")
    return [Figure(f"advantage-{file_name(program, 'program')}", chart, "Below 1 the variant is faster in the same memory. Drawn only where both were measured.")]


def _latency_chart(experiment: Experiment, analysis: Analysis, program: str) -> list[Figure]:
    """Latency by percentile, on a logarithmic axis; at the middle knob value where there is one."""
    names = [m for m in PERCENTILES if m in analysis.metrics]
    lines = []
    for index, variant in enumerate(experiment.variants):
        found = [analysis.level(program, variant.name, m, variant.middle_value()) for m in names]
        if found and all(found):
            lines.append((index, variant.name, [(k, f.median) for k, f in enumerate(found) if 0 < f.median < math.inf]))
    values = [v for *_, own in lines for _, v in own]
    if not values:
        return []
    whole = all(len(own) == len(names) for *_, own in lines)
    many = len(experiment.programs) > 1
    chart = Chart((-0.3, len(names) - 0.7), (min(values) / 1.3, max(values) * 1.3), title=f"{program}: latency by percentile", width=480 if many else 720,
                  x_title="percentile of requests" + (", from their intended time" if experiment.program(program).server else ""), y_title="ms", height=300 if many else 340, log_y=True)
    for k, name in enumerate(names):
        chart.column(units.title(name, False), k)
    for index, name, own in lines:
        chart.legend(name, index)
        chart.line(own, index)
        for k, value in own:
            chart.point(k, value, index, f"{name} {units.title(names[k], False)}: {units.number(value)} ms")
    return [Figure(f"latency-{file_name(program, 'program')}", chart, "Medians over blocks of each block's percentile; percentiles of different blocks are never pooled."
                   + ("" if whole else " A percentile that failed requests reach is infinite, and has no point."), wide=not many)]


def _memory_over_time(experiment: Experiment, runs: Sequence[Run], analysis: Analysis, program: str) -> list[Figure]:
    machine = analysis.machines.reference if analysis.machines else None
    shown = [(i, v, own) for i, v in enumerate(experiment.variants) if (own := read_runs(runs, Arm(program, v.name, v.middle_value()), machine))]
    if not shown:
        return []
    end = max(r.series[-1][0] for *_, own in shown for r in own)
    top = max(m for *_, own in shown for r in own for _, m, _ in r.series)
    many = len(experiment.programs) > 1
    chart = Chart((0, end), (0, top * 1.05), title=f"{program}: memory over time", x_title="seconds since start", y_title="RSS (MiB)",
                  width=480 if many else 720, height=300 if many else 380)
    for index, variant, own in shown:
        chart.legend(variant.name + (f" {variant.knob}={variant.middle_value()}" if variant.values else ""), index)
        typical = typical_run(own)
        for run in own[:_FAINT_RUNS]:
            if run is not typical:
                chart.line(thinned(run.series), index, faint=True)
        chart.line(thinned(typical.series), index)
    caption = "Resident memory of the whole process tree; the strong line is the run with the middle wall time, faint lines are other runs."
    return [Figure(f"memory-{file_name(program, 'program')}", chart, caption, wide=not many)]


def read_runs(runs: Sequence[Run], arm: Arm, machine: str | None = None) -> list[Run]:
    """The successful runs of an arm, of one machine where it is named, whose memory was read more than once."""
    return [r for r in runs if r.arm == arm and r.block >= 0 and r.state == OK and len(r.series) > 1 and machine in (None, r.machine)]


def typical_run(runs: Sequence[Run]) -> Run:
    """The one with the middle wall time."""
    middle = median(r.metrics["wall_s"] for r in runs)
    return min(runs, key=lambda r: abs(r.metrics["wall_s"] - middle))
