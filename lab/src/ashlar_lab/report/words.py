"""The verdict and the warnings, in plain sentences that carry their uncertainty."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ashlar_lab.experiment.model import Experiment
from ashlar_lab.fit.analysis import Analysis
from ashlar_lab.fit.ratios import noise_floor
from ashlar_lab.fit.trimmed import Estimate
from ashlar_lab.report import units
from ashlar_lab.store.run import OK, Run


def verdict(experiment: Experiment, analysis: Analysis) -> list[str]:
    """One sentence per variant and question, the baseline being the measure."""
    if not analysis.runs:
        return ["Nothing was measured yet."]
    if len(experiment.variants) == 1:
        return _single(experiment, analysis)
    return _ratio_sentences(experiment, analysis)


def _single(experiment: Experiment, analysis: Analysis) -> list[str]:
    found = []
    for program in experiment.programs:
        for metric in (experiment.time_metric, experiment.space_metric):
            level = analysis.level(program.name, experiment.baseline, metric)
            if level:
                found.append(f"{program.name} takes {units.number(level.mean.value)} {units.unit(metric)} of {units.in_sentence(metric)}.")
    return found


def _metrics_of_interest(experiment: Experiment, analysis: Analysis) -> list[str]:
    served = [m for m in ("requests_per_s", "p99_ms") if m in analysis.metrics]
    return list(dict.fromkeys([*served, experiment.time_metric, experiment.space_metric]))


def _ratio_sentences(experiment: Experiment, analysis: Analysis) -> list[str]:
    found = []
    for variant in experiment.variants:
        if variant.name == experiment.baseline:
            continue
        for metric in _metrics_of_interest(experiment, analysis):
            floor = noise_floor(analysis.noise, metric)
            summary = next((s for s in analysis.summaries if s.variant == variant.name and s.metric == metric), None)
            of_variant = [r for r in analysis.ratios if r.variant == variant.name and r.metric == metric]
            if summary:
                found.append(f"{variant.name}, {units.in_sentence(metric)}: {_judged(summary.ratio, experiment.baseline, floor, metric)} "
                             f"(geometric mean over {summary.programs} programs).{_exceptions(of_variant, metric)}")
            else:
                for r in of_variant:
                    at = f" at {variant.knob}={r.at_value}" if r.at_value else ""
                    found.append(f"{variant.name}{at}, {units.in_sentence(metric)}: {_judged(r.ratio, experiment.baseline, floor, metric)}.")
    return found


def _judged(e: Estimate, baseline: str, floor: float, metric: str) -> str:
    """Value, interval and what may be concluded."""
    d = units.digits(e)
    told = f"{units.ratio(e.value, d)} of {baseline}'s"
    if not math.isfinite(e.high):
        return f"{told} in a single block; one block says nothing about the uncertainty"
    told += f", 95 % interval {units.ratio(e.low, d)} to {units.ratio(e.high, d)}"
    if not e.excludes(1.0):
        if e.low > 0.95 and e.high < 1.05:
            return f"{told}: no difference shown, and one above {units.percent(max(e.high - 1, 1 - e.low), signed=False)} is ruled out"
        return f"{told}: no difference shown"
    direction = "less" if e.value < 1 else "more"
    better = (e.value > 1) == units.more_is_better(metric)
    if abs(e.value - 1) <= floor:
        return f"{told}: {direction}, but the baseline differs from itself by {units.percent(floor, signed=False)}, so this is within the noise"
    return f"{told}: {direction}, which is {'better' if better else 'worse'}"


def _exceptions(ratios, metric: str) -> str:
    worse = [r for r in ratios if r.ratio.excludes(1.0) and (r.ratio.value > 1) != units.more_is_better(metric)]
    if not worse:
        return ""
    names = ", ".join(f"{r.program} {units.ratio(r.ratio.value)}" for r in worse)
    return f" Worse for {names}."


def warnings(experiment: Experiment, runs: Sequence[Run], analysis: Analysis) -> list[str]:
    """What makes the result weaker than it looks, and what to do about it."""
    found = []
    measured = [r for r in runs if r.block >= 0]
    good = [r for r in measured if r.state == OK]
    bad = [r for r in runs if r.state != OK]
    if bad:
        kinds = ", ".join(f"{n} {state}" for state, n in analysis.failures.items())
        found.append(f"{len(bad)} of {len(runs)} runs did not succeed ({kinds}). They are listed below and are in no figure; find out why before believing the rest.")
    if analysis.blocks < 10:
        found.append(f"Only {analysis.blocks} block{'s' if analysis.blocks != 1 else ''}: intervals are wide, and 10 is the least for a firm statement. Add blocks with --resume and --blocks.")
    shared = [r for r in good if r.metrics.get("cpu_s", 0) > 0.05 and r.metrics["wall_s"] > 1.3 * r.metrics["cpu_s"] + 0.05 and not r.latency_s]
    if len(shared) > 0.1 * max(1, len(good)):
        found.append(f"In {len(shared)} of {len(good)} runs the program waited for the CPU or for input (wall time more than 1.3 times CPU time). "
                     "On a shared machine read CPU time, or measure when it is quiet.")
    floor = noise_floor(analysis.noise, experiment.time_metric)
    if floor > 0.03:
        found.append(f"The baseline differs from itself by {units.percent(floor, signed=False)} in {units.in_sentence(experiment.time_metric)} (the A/A arm). "
                     "Smaller differences than that mean nothing here; add blocks or quiet the machine.")
    clear = [r for r in analysis.noise if r.metric == experiment.time_metric and r.ratio.excludes(1.0) and r.ratio.n >= 5]
    if clear:
        found.append("The A/A arm's interval excludes 1 for " + ", ".join(r.program for r in clear) + ". One in twenty does so by chance; more means the order or the machine biases the result.")
    found += _drift(experiment, good)
    short = sorted({r.program for r in good if r.metrics["wall_s"] < 0.1})
    if short:
        found.append(f"{', '.join(short)} runs under 0.1 s: start-up dominates and memory has few samples. Give it more work.")
    for complaint in list(dict.fromkeys(f"{r.program}: {c}" for r in runs for c in r.complaints))[:3]:
        found.append(f"{complaint}. Such a figure is left out.")
    left = sorted({r.program for r in good if r.metrics.get("left_behind", 0)})
    if left:
        found.append(f"{', '.join(left)} left processes behind when it ended; they were killed. Time after the main process's end is not counted.")
    return found


def _drift(experiment: Experiment, good: Sequence[Run]) -> list[str]:
    """The whole machine getting slower or faster during the measurement: medians of the first and last third."""
    from statistics import median

    blocks = sorted({r.block for r in good})
    if len(blocks) < 6:
        return []
    third = len(blocks) // 3
    first, last = set(blocks[:third]), set(blocks[-third:])
    arms: dict = {}
    for run in good:
        if run.block in first or run.block in last:
            arms.setdefault(run.arm, ([], []))[run.block in last].append(run.metrics[experiment.time_metric])
    moved = [math.log(median(b) / median(a)) for a, b in arms.values() if a and b and min(a + b) > 0]
    if moved and abs(median(moved)) > math.log(1.05):
        return [f"The machine {'slowed down' if median(moved) > 0 else 'sped up'} by {units.percent(abs(math.expm1(median(moved))), signed=False)} from the first to the last third "
                "of the measurement. Pairing within blocks removes most of that; a repeat on a quiet machine removes all."]
    return []


def missing(runs: Sequence[Run]) -> list[str]:
    """What this machine could not measure, and why."""
    found: dict[str, str] = {}
    for run in runs:
        found.update(run.missing)
    by_reason: dict[str, list[str]] = {}
    for name, why in found.items():
        by_reason.setdefault(why, []).append(name)
    return [f"Not measured: {', '.join(sorted(names))}: {why}." for why, names in by_reason.items()]
