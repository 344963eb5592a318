"""What a report says of several machines: which, how many, how they differ, and which of them disagrees."""

import math
from collections import Counter

from ashlar.tables import Table
from ashlar_lab.experiment.model import Arm, Experiment
from ashlar_lab.fit.across import POPULATION
from ashlar_lab.fit.analysis import Analysis
from ashlar_lab.fit.machines import Disagreement, Machines, Spread
from ashlar_lab.fit.trimmed import Estimate
from ashlar_lab.report import units
from ashlar_lab.report.tables import made

_NAMED, _LISTED = 4, 60


def verdict(experiment: Experiment, found: Machines) -> list[str]:
    """For whom the figures hold, and where they depend on the machine."""
    count = len(found.machines)
    spoken = (f"Measured on {count} machines, each giving one number: the intervals hold for machines like these." if found.population else
              f"Measured on {count} machines: the intervals speak of these {count}, not of others ({POPULATION} or more would).")
    depends = [s for s in found.spreads if s.differs]
    said = [f"{_where(s, first=True)} depends on the machine: {units.interval(s.low)} of {experiment.baseline}'s on {s.lowest}, {units.interval(s.high)} on {s.highest}."
            for s in sorted(depends, key=_width)[:_NAMED]]
    if len(depends) > _NAMED:
        said.append(f"{len(depends) - _NAMED} more ratios depend on the machine; the table of machines lists the widest.")
    return [spoken, *said]


def warnings(experiment: Experiment, found: Machines) -> list[str]:
    """The machines that disagree with the others, worst first, and those that fail."""
    said = []
    count = Counter(d.machine for d in found.disagreements)
    names = sorted(count, key=lambda name: (-count[name], name))
    for name in names[:_NAMED]:
        own = sorted((d for d in found.disagreements if d.machine == name), key=lambda d: _apart(d.own, d.others), reverse=True)
        worst = own[0]
        more = f" ({len(own) - 1} more such ratios)" if len(own) > 1 else ""
        said.append(f"{name} disagrees with the other machines: {_where(worst)} is {units.interval(worst.own)} of {experiment.baseline}'s there and {units.interval(worst.others)} "
                    f"elsewhere{more}. Find out why, or measure without it.")
    if len(names) > _NAMED:
        said.append(f"{len(names) - _NAMED} more machines disagree: {', '.join(names[_NAMED:_NAMED + 8])}.")
    failing = [m for m in found.machines if m.failures]
    if failing and len(failing) < len(found.machines):
        said.append("Failed runs were on " + ", ".join(f"{m.name} ({m.failures})" for m in sorted(failing, key=lambda m: -m.failures)[:_NAMED])
                    + f"; {len(found.machines) - len(failing)} other machines had none.")
    return said


def shared_kernels(facts: dict[str, dict]) -> list[str]:
    """Workers that count as machines and are one machine measure each other's noise."""
    by_kernel: dict[str, list[str]] = {}
    for name, own in facts.items():
        if own.get("kernel_instance"):
            by_kernel.setdefault(own["kernel_instance"], []).append(name)
    return [f"{', '.join(sorted(names)[:_NAMED])}{' and others' if len(names) > _NAMED else ''} share one machine, each running a program at the same time: they disturb each "
            "other, and what they agree on may be that machine's own." for names in by_kernel.values() if len(names) > 1]


def tables(experiment: Experiment, found: Machines, facts: dict[str, dict]) -> list[Table | None]:
    """One row per machine."""
    accused = {d.machine for d in found.disagreements}
    rows = []
    shown = found.machines if len(found.machines) <= _LISTED else sorted(found.machines, key=lambda m: (m.name not in accused, not m.failures))[:_LISTED]
    for m in shown:
        speed = "1 (the reference)" if m.name == found.reference else units.interval(m.speed)
        own = facts.get(m.name, {})
        what = ", ".join(str(own[k]) for k in ("cpu", "system") if own.get(k))
        rows.append((m.name, str(m.blocks), speed, units.percent(m.noise, signed=False) if m.noise is not None else "–",
                     str(m.failures), "yes" if m.name in accused else "no", what or "–"))
    less = f" {len(found.machines) - len(rows)} more are not listed." if len(rows) < len(found.machines) else ""
    spreads = sorted(found.spreads, key=_width)[:_LISTED // 4]
    return [
        made("machines", f"{len(found.machines)} machines", ("blocks", f"{units.title(experiment.time_metric, False)} / {found.reference}'s", "spread of a run",
             "failed runs", "disagrees", "machine"), rows,
             f"Ratios pair runs of one machine. Seconds and MiB everywhere else are {found.reference}'s alone, which ran the most blocks; curves are at its speed." + less),
        made("machines-ratios", "How far the machines differ", ("lowest", "on", "highest", "on", "surely different"),
             ((_where(s), units.interval(s.low), s.lowest, units.interval(s.high), s.highest, "yes" if s.differs else "no") for s in spreads),
             f"Ratio to {experiment.baseline} on the machine where it is lowest and where it is highest; the widest first. Of many machines the two extremes differ by chance as well.")]


def depends(analysis: Analysis, program: str, variant: str, value: str | None, metric: str) -> bool:
    """Whether a ratio is not one figure: a few machines contradict each other about it."""
    found = analysis.machines
    return found is not None and not found.population and any(
        s.differs and (s.program, s.variant, s.value, s.metric) == (program, variant, value, metric) for s in found.spreads)


def _where(d: Disagreement | Spread, first: bool = False) -> str:
    """The figure in words; `first` where a sentence begins with it."""
    return f"{units.title(d.metric, False) if first else units.in_sentence(d.metric)} of {Arm(d.program, d.variant, d.value).label()}"


def _width(s: Spread) -> float:
    """How far the machines differ: the smaller, the further."""
    return -_apart(s.low, s.high)


def _apart(a: Estimate, b: Estimate) -> float:
    """How far a ratio is from another, as a logarithm; infinite where one of them is 0, infinite or no number."""
    return abs(math.log(a.value / b.value)) if all(0 < e.value < math.inf for e in (a, b)) else math.inf
