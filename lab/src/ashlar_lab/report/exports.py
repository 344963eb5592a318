"""CSV of every run and JSON of everything estimated; and of both what a record keeps with the project, small."""

import csv
import io
import json
import math
from collections.abc import Iterator

from ashlar_lab.fit.trimmed import Estimate
from ashlar_lab.report import units
from ashlar_lab.report.page import Page
from ashlar_lab.variants import BASES

# What a record keeps of every run, beside what the experiment shows.
_RECORDED = ("wall_s", "user_s", "sys_s", "peak_mib", "mean_mib", "gc_count", "gc_time_ms", "allocated_objects", "live_bytes",
             "requests_per_s", "p50_ms", "p99_ms", "p999_ms", "others_cpu_s")


def runs_csv(page: Page) -> Iterator[str]:
    """One line per run, failed runs included, in pieces; the columns are the union of all metrics."""
    table = page.table
    metrics = sorted(table.metrics(measured_only=False))
    columns = [table.column(m) for m in metrics]
    named = ["machine"] if page.analysis.machines else []
    yield _line(["block", "position", "program", "variant", "value", "role", "state", "reason", "checksum", *named, *metrics])
    for i in table.order:
        program, variant, value, role = table.arms[table.arm[i]]
        machine = [table.machines[table.machine[i]]] if named else []
        yield _line([table.block[i], table.position[i], program, variant, value or "", role, table.states[table.state[i]], table.reasons[table.reason[i]],
                     table.checksums[table.checksum[i]] or "", *machine, *("" if math.isnan(c[i]) else float(c[i]) for c in columns)])


def analysis_json(page: Page) -> str:
    """Verdict, machine, experiment and estimates. Folders of this machine stay out, so that it can be published."""
    experiment = json.loads(page.experiment.to_json())
    for program in experiment["programs"]:
        program.pop("directory")
    for variant in experiment["variants"]:
        variant.pop("directory")
        if variant["base"] in BASES and BASES[variant["base"]].path(variant["settings"]):
            variant["settings"].pop("ruby")
    return json.dumps({
        "title": page.title,
        "verdict": page.verdict,
        "warnings": page.warnings,
        "machine": dict(page.machine),
        "experiment": experiment,
        "analysis": page.analysis.to_dict(),
    }, indent=1, ensure_ascii=False) + "\n"


def record_csv(page: Page) -> str:
    """One line per run, failed ones included."""
    metrics = [m for m in _recorded(page) if any(m in r.metrics for r in page.runs)]
    knob = ["knob"] if page.experiment.sweeps() else []
    rows = ([r.block, r.position, r.program, r.variant, *([r.value or ""] if knob else []), r.role, r.state, f"{r.load:.2f}",
             *(f"{r.metrics[m]:.6g}" if m in r.metrics else "" for m in metrics)] for r in page.runs)
    return "".join(map(_line, (["block", "position", "program", "variant", *knob, "role", "state", "load", *metrics], *rows)))


def record_json(page: Page) -> str:
    """The answers with their intervals, the plain value of every metric in every arm, and of every comparison of curves the time ratios at equal
    space and how clear dominance is. It is free of the paths of the machine it was made on."""
    analysis, kept = page.analysis, (*_recorded(page), "cpu_s")
    curves = [{"program": c.program, "variant": c.first, "against": c.second, "better_p": c.better_p, "better_by_2_percent_p": c.better_by_margin_p,
               "worse_p": c.worse_p, "cross_p": c.cross_p, "time_ratios": [{"space": _finite(a.place), **_interval(a.ratio)} for a in c.time_ratios]}
              for c in analysis.comparisons]
    return json.dumps({
        "title": page.title, "facts": page.facts, "warnings": page.warnings, "machine": dict(page.machine),
        "answers": [{"contrast": a.contrast, "program": a.program, **_interval(a.estimate), "unit": a.estimate.unit, "pairs": a.estimate.n,
                     "goal": a.goal, "judged": a.judged} for a in analysis.answers],
        "values": [{"program": v.program, "variant": v.variant, **({} if v.value is None else {"knob": v.value}), "metric": v.metric,
                    "unit": units.unit(v.metric), "mean": _finite(v.mean.value), "median": _finite(v.median)} for v in analysis.levels if v.metric in kept],
        **({"curves": curves} if curves else {}),
    }, ensure_ascii=False, indent=None).replace('}, {"', '},\n {"') + "\n"


def _recorded(page: Page) -> list[str]:
    """What is kept of every run: the usual metrics, and those that the experiment shows."""
    own = [m for program in page.experiment.programs for m in program.figures]
    return list(dict.fromkeys([*_RECORDED, page.experiment.space_metric, *page.experiment.figures, *(m for m in page.experiment.metrics if m != "cpu_s"), *own]))


def _line(cells: list) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow(cells)
    return out.getvalue()


def _interval(e: Estimate) -> dict[str, float | None]:
    return {"value": _finite(e.value), "low": _finite(e.low), "high": _finite(e.high)}


def _finite(value: float) -> float | None:
    return float(f"{value:.6g}") if math.isfinite(value) else None
