"""A result that is kept with the project: small, and free of the paths of the machine it was made on."""

import json
import math

from ashlar_lab.report import units
from ashlar_lab.report.exports import csv_line
from ashlar_lab.report.page import Page
from ashlar_lab.report.tables import shown_noise

_RUN_METRICS = ("wall_s", "user_s", "sys_s", "peak_mib", "mean_mib", "gc_count", "gc_time_ms", "allocated_objects", "live_bytes",
                "requests_per_s", "p50_ms", "p99_ms", "p999_ms", "others_cpu_s")


def as_json(page: Page) -> str:
    """The answers with their intervals, and the plain value of every metric in every arm."""
    analysis = page.analysis
    return json.dumps({
        "title": page.title, "facts": page.facts, "warnings": page.warnings, "machine": dict(page.machine),
        "answers": [{"contrast": a.contrast, "program": a.program, "value": _finite(a.estimate.value), "low": _finite(a.estimate.low),
                     "high": _finite(a.estimate.high), "unit": a.estimate.unit, "pairs": a.estimate.n, "goal": a.goal, "judged": a.judged} for a in analysis.answers],
        "noise": [{"program": r.program, "metric": r.metric, "value": _finite(r.ratio.value), "low": _finite(r.ratio.low), "high": _finite(r.ratio.high),
                   "pairs": r.ratio.n} for r in shown_noise(page.experiment, analysis)],
        "values": [{"program": v.program, "variant": v.variant, **_knob(v.value), "metric": v.metric, "unit": units.unit(v.metric), "mean": _finite(v.mean.value),
                    "median": _finite(v.median)} for v in analysis.levels if v.metric in (*_metrics(page), "cpu_s")],
        **({"curves": _curves(page)} if analysis.comparisons else {}),
    }, ensure_ascii=False, indent=None).replace('}, {"', '},\n {"') + "\n"


def as_csv(page: Page) -> str:
    """One line per run, failed ones included."""
    table, knob = page.table, ["knob"] if page.experiment.sweeps() else []
    present = table.metrics(measured_only=False)
    columns = {m: table.column(m) for m in _metrics(page) if m in present}
    found = [csv_line(["block", "position", "program", "variant", *knob, "role", "state", "load", *columns])]
    for i in table.order:
        program, variant, value, role = table.arms[table.arm[i]]
        found.append(csv_line([table.block[i], table.position[i], program, variant, *([value or ""] if knob else []), role, table.states[table.state[i]],
                               f"{table.load[i]:.2f}", *("" if math.isnan(c[i]) else f"{c[i]:.6g}" for c in columns.values())]))
    return "".join(found)


def _metrics(page: Page) -> list[str]:
    """What is kept of every run: the usual metrics, and those that the experiment shows."""
    own = [m for program in page.experiment.programs for m in program.figures]
    return list(dict.fromkeys([*_RUN_METRICS, page.experiment.space_metric, *page.experiment.figures, *(m for m in page.experiment.metrics if m != "cpu_s"), *own]))


def _knob(value: str | None) -> dict[str, str]:
    return {} if value is None else {"knob": value}


def _curves(page: Page) -> list[dict]:
    """Every comparison of curves: the time ratios at equal space, and how clear dominance is."""
    return [{"program": c.program, "variant": c.first, "against": c.second, "better_p": c.better_p, "better_by_2_percent_p": c.better_by_margin_p,
             "worse_p": c.worse_p, "cross_p": c.cross_p, "within_noise": c.within_noise,
             "time_ratios": [{"space": _finite(a.place), "value": _finite(a.ratio.value), "low": _finite(a.ratio.low), "high": _finite(a.ratio.high)} for a in c.time_ratios]}
            for c in page.analysis.comparisons]


def _finite(value: float) -> float | None:
    return float(f"{value:.6g}") if math.isfinite(value) else None
