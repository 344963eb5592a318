"""The verdict and the warnings, in plain sentences that carry their uncertainty."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from statistics import median

import numpy as np

from ashlar_lab.experiment.model import Experiment
from ashlar_lab.fit.analysis import Analysis
from ashlar_lab.fit.curves import SHOWN_BELOW_P
from ashlar_lab.fit.floor import differs
from ashlar_lab.fit.trimmed import LEAST_BLOCKS, Estimate
from ashlar_lab.report import fleet, units
from ashlar_lab.report.units import p_value
from ashlar_lab.store.run import OK, Run
from ashlar_lab.store.table import Table

# Other processes matter from here on. /proc counts in hundredths of a second, so that a shorter run cannot be judged.
_DISTURBED_CORES, _SHORTEST_JUDGED_S = 0.1, 0.3
# The drift of so many arms, each on one machine, is looked at: enough for a median.
_DRIFT_GROUPS = 200
# From here on it is said by how much the baseline differs from itself.
_NOISY = 0.03
# An interval whose ends differ by this factor.
_SAYS_NOTHING = 10


def verdict(experiment: Experiment, analysis: Analysis) -> list[str]:
    """One sentence per variant and question, the baseline being the measure."""
    if not analysis.runs:
        return ["Nothing was measured yet."]
    if analysis.curves:
        said = _curve_sentences(experiment, analysis) + _misled_sentences(experiment, analysis) + _pointwise_sentences(experiment, analysis)
    elif len(experiment.variants) == 1:
        said = _single(experiment, analysis)
    else:
        said = _ratio_sentences(experiment, analysis)
    return said + (fleet.verdict(experiment, analysis.machines) if analysis.machines else [])


def _range(experiment: Experiment, curve) -> str:
    """What one variant's knob buys, from its first value to its last."""
    first, last = curve.points[0], curve.points[-1]
    knob = experiment.variant(curve.variant).knob
    return (f"{curve.program}: from {knob}={first.value} to {knob}={last.value}, {units.in_sentence(experiment.time_metric)} goes from {units.number(first.time.value)} to "
            f"{units.number(last.time.value)} {last.time.unit} and {units.in_sentence(experiment.space_metric)} from {units.number(first.space.value)} to {units.number(last.space.value)} {last.space.unit}.")


def _curve_sentences(experiment: Experiment, analysis: Analysis) -> list[str]:
    """Which curve wins, by how much, and which models fell."""
    found = []
    if len(experiment.variants) == 1:
        found += [_range(experiment, curve) for curve in analysis.curves]
    for c in analysis.comparisons:
        head = f"{c.program}: " if len(experiment.programs) > 1 else ""
        found.append(head + _winner(experiment, c))
        second = next(curve for curve in analysis.curves if (curve.program, curve.variant) == (c.program, c.second))
        if c.delta_c and c.delta_c.excludes(0.0) and abs(c.delta_c.value) > analysis.floor(experiment.space_metric) * second.c.value:
            found.append(f"{head}{c.first}'s least space is {_amount(c.delta_c, '{:.0f}'.format)}: live data is the same, so this is fragmentation.")
        if c.delta_a and math.isfinite(c.delta_a.high):
            if c.delta_a.excludes(0.0) and abs(c.delta_a.value) > c.floor * second.a.value:
                found.append(f"{head}Without collection {c.first} would take {_amount(c.delta_a, units.number)}.")
            else:
                why = f"; {units.noise(c.floor)}" if c.delta_a.excludes(0.0) else ""
                found.append(f"{head}No difference in the time without collection is shown (Δa {units.number(c.delta_a.value)} {c.delta_a.unit}, {units.number(c.delta_a.low)} to {units.number(c.delta_a.high)}{why}).")
    for curve in analysis.curves:
        if curve.form != "model":
            head = f"The space-time model is rejected for {curve.variant} on {curve.program}" if curve.rejected else f"No model is fitted to {curve.variant} on {curve.program}"
            found.append(f"{head}: {curve.reason}. Its curve is the monotone envelope of the points, and no parameters are given.")
    return found


def _winner(experiment: Experiment, c) -> str:
    time = units.in_sentence(experiment.time_metric)
    if c.blocks < LEAST_BLOCKS:
        return f"No winner is named between {c.first} and {c.second}: {_blocks(c.blocks)} too few, {LEAST_BLOCKS} are the least."
    if not c.overlap:
        return f"{c.note}; at equal space they cannot be compared." + _space_sentence(c)
    where = f"between {c.overlap[0]:.0f} and {c.overlap[1]:.0f} {c.space_unit}"
    mean = f"On average over that range it takes {_short(c.area)} of {c.second}'s {time}."
    if c.better():
        judged = f"{c.first} beats {c.second} at every space {where} ({p_value(c.better_p)}; by 2 % or more everywhere: {p_value(c.better_by_margin_p)})."
    elif c.worse():
        judged = f"{c.first} loses to {c.second} at every space {where} ({p_value(c.worse_p)}; by 2 % or more everywhere: {p_value(c.worse_by_margin_p)})."
    elif min(c.better_p, c.worse_p) < SHOWN_BELOW_P:
        judged = (f"No winner is named between {c.first} and {c.second} {where}: {c.first} is {'below' if c.better_p < c.worse_p else 'above'} at every space, but {units.noise(c.floor)}"
                  f"{', and somewhere the curves are no further apart' if math.isfinite(c.floor) else ''}.")
    elif c.crosses():
        judged = (f"The curves of {c.first} and {c.second} cross between {c.crossing[0]:.0f} and {c.crossing[1]:.0f} {c.space_unit} ({p_value(c.cross_p)}): "
                  "which is better depends on the memory there is.")
    else:
        judged = f"No winner is shown between {c.first} and {c.second} {where}: neither is surely faster at every space, and they do not surely cross."
    return f"{judged} {mean}" + _space_sentence(c)


def _space_sentence(c) -> str:
    if not c.space_ratios:
        return ""
    middle = c.space_ratios[len(c.space_ratios) // 2]
    return f" For the same {middle.place:.3g} {middle.unit} it needs {_short(middle.ratio)} of {c.second}'s space."


def _blocks(n: int) -> str:
    return f"{n} block{'s are' if n != 1 else ' is'}"


def _short(e: Estimate) -> str:
    return f"{units.ratio(e.value)} ({units.TOO_FEW if units.too_few(e) else f'{units.ratio(e.low)} to {units.ratio(e.high)}'})"


def _amount(e: Estimate, write: Callable[[float], str]) -> str:
    """`15 MiB less (12 to 18)`: a difference whose interval excludes zero."""
    least, most = sorted((abs(e.low), abs(e.high)))
    return f"{write(abs(e.value))} {e.unit} {'less' if e.value < 0 else 'more'} ({write(least)} to {write(most)})"


def _misled_sentences(experiment: Experiment, analysis: Analysis) -> list[str]:
    """Where a single knob value says the opposite of the curves: the trap the curves are for."""
    found = []
    for c in analysis.comparisons:
        if not (c.better() or c.worse()):
            continue
        wins = c.better()
        against = [r for r in analysis.ratios if (r.program, r.variant, r.metric) == (c.program, c.first, experiment.time_metric)
                   and differs(r.ratio, c.floor) and (r.ratio.value > 1) == wins]
        if against:
            knob = experiment.variant(c.first).knob
            values = ", ".join(f"{knob}={r.at_value} {units.interval(r.ratio)}" for r in against)
            found.append(f"At equal {knob} alone {c.first} looks {'slower' if wins else 'faster'} than {c.second} ({values}), because equal settings buy different amounts of space. The curves settle it.")
    return found


def _pointwise_sentences(experiment: Experiment, analysis: Analysis) -> list[str]:
    """Of variants without a curve to compare: at which settings a difference is shown. A table has the intervals."""
    found = []
    for program, variant in ((p.name, v) for p in experiment.programs for v in experiment.without_curve()):
        knob = experiment.compared_knob(variant)
        for metric in (experiment.time_metric, experiment.space_metric):
            floor, own = analysis.floor(metric), [r for r in analysis.ratios if (r.program, r.variant, r.metric) == (program, variant.name, metric)]
            head = f"{program}: {variant.name}, {units.in_sentence(metric)}"
            if knob is None:
                found += [f"{head}: {_judged(r.ratio, experiment.baseline, floor, metric)}." for r in own]
                continue
            shown = {side: [f"{knob}={r.at_value}" for r in own if differs(r.ratio, floor) and (r.ratio.value < 1) == (side == "less")] for side in ("less", "more")}
            told = "; ".join(f"{side} at {', '.join(values)}" for side, values in shown.items() if values)
            found.append(f"{head} against {experiment.baseline}'s, at each of {units.counted(len(own), 'value')} of {knob}: {told or 'no difference shown'}.")
    return found


def _single(experiment: Experiment, analysis: Analysis) -> list[str]:
    return [f"{program.name} takes {units.level(level)} {units.unit(metric)} of {units.in_sentence(metric)}."
            for program in experiment.programs for metric in (experiment.time_metric, experiment.space_metric)
            if (level := analysis.level(program.name, experiment.baseline, metric))]


def _ratio_sentences(experiment: Experiment, analysis: Analysis) -> list[str]:
    found = []
    for variant in experiment.variants:
        if variant.name == experiment.baseline:
            continue
        for metric in dict.fromkeys([*analysis.served(), experiment.time_metric, experiment.space_metric]):
            floor = analysis.floor(metric)
            summary = next((s for s in analysis.summaries if s.variant == variant.name and s.metric == metric), None)
            of_variant = [r for r in analysis.ratios if r.variant == variant.name and r.metric == metric]
            depending = [r for r in of_variant if fleet.depends(analysis, r.program, r.variant, r.at_value, metric)]
            if summary:
                judged = _judged(summary.ratio, experiment.baseline, floor, metric, ", ".join(r.program for r in depending))
                found.append(f"{variant.name}, {units.in_sentence(metric)}: {judged} "
                             f"(geometric mean over {units.counted(summary.programs, 'program')}).{_exceptions(of_variant, metric, floor)}")
                continue
            for r in of_variant:
                if r not in depending:  # that is said machine by machine
                    at = f" at {variant.knob}={r.at_value}" if r.at_value else ""
                    found.append(f"{variant.name}{at}, {units.in_sentence(metric)}: {_judged(r.ratio, experiment.baseline, floor, metric)}.")
    return found


def _judged(e: Estimate, baseline: str, floor: float, metric: str, depending: str = "") -> str:
    """Value, interval and what may be concluded. `depending` names the programs whose own ratio is another one from machine to machine."""
    d = units.digits(e)
    told = f"{units.ratio(e.value, d)} of {baseline}'s"
    if math.isnan(e.value):
        return f"no ratio to {baseline}'s, as each of the two is 0 or infinite in some blocks"
    if units.too_few(e):
        return f"{told}, but {_blocks(e.n)} too few to say anything; {LEAST_BLOCKS} are the least"
    if e.high > _SAYS_NOTHING * e.low and not e.excludes(1.0):
        return f"{told}, but the interval is too wide to say anything; add blocks"
    told += f", 95 % interval {units.ratio(e.low, d)} to {units.ratio(e.high, d)}"
    if depending:
        return f"{told}: no verdict, because the ratio depends on the machine for {depending}"
    if not e.excludes(1.0):
        if e.low > 0.95 and e.high < 1.05 and floor < 0.05:
            return f"{told}: no difference shown, and one above {units.percent(max(e.high - 1, 1 - e.low, floor, 0.001), signed=False)} is ruled out"
        return f"{told}: no difference shown"
    direction = "less" if e.value < 1 else "more"
    better = (e.value > 1) == units.more_is_better(metric)
    if not differs(e, floor):
        return f"{told}: {direction}, but {units.noise(floor)}, so {'this is within the noise' if math.isfinite(floor) else 'there is no verdict'}"
    return f"{told}: {direction}, which is {'better' if better else 'worse'}"


def _exceptions(ratios, metric: str, floor: float) -> str:
    worse = [r for r in ratios if differs(r.ratio, floor) and (r.ratio.value > 1) != units.more_is_better(metric)]
    return f" Worse for {', '.join(f'{r.program} {units.ratio(r.ratio.value)}' for r in worse)}." if worse else ""


def warnings(experiment: Experiment, runs: Sequence[Run], analysis: Analysis) -> list[str]:
    """What makes the result weaker than it looks, and what to do about it."""
    found = []
    table = Table.of(runs)
    good = _Good(table)
    if bad := len(table) - table.counts().get(OK, 0):
        kinds = ", ".join(f"{n} {state}" for state, n in analysis.failures.items())
        found.append(f"{bad} of {len(table)} runs did not succeed ({kinds}). They are listed below and are in no figure"
                     + (", but in those of requests: one that failed counts as longer than all others" if np.any(table.column("failed_requests")[table.answered() & ~table.good()] > 0) else "")
                     + "; find out why before believing the rest.")
    if analysis.blocks < LEAST_BLOCKS:
        found.append(f"{_blocks(analysis.blocks)} too few for intervals and verdicts: {LEAST_BLOCKS} are the least, and 10 make firm statements. Add blocks with --resume and --blocks.")
    elif analysis.blocks < 10:
        found.append(f"Only {analysis.blocks} blocks: intervals are wide, and 10 is the least for a firm statement. Add blocks with --resume and --blocks.")
    found += _failed_requests(good) + (fleet.warnings(experiment, analysis.machines) if analysis.machines else [])
    cpu, wall = good.column("cpu_s"), good.column("wall_s")
    shared = int(((cpu > 0.05) & (wall > 1.3 * cpu + 0.05) & np.isnan(good.column("requests_per_s"))).sum())
    if shared > 0.1 * max(1, good.count):
        found.append(f"In {shared} of {good.count} runs the program waited for the CPU or for input (wall time more than 1.3 times CPU time). "
                     "On a shared machine read CPU time, or measure when it is quiet.")
    found += _disturbed(good, runs)
    if (fewest := min((len(c.points) for c in analysis.curves), default=7)) < 7:
        found.append(f"A curve rests on {fewest} knob values; 7 or more, spaced geometrically, make a, b and c worth reading.")
    found += _differs_from_itself(experiment, analysis)
    found += _drift(experiment, good)
    if short := good.programs(wall < 0.1):
        found.append(f"{', '.join(short)} runs under 0.1 s: start-up dominates and memory has few samples. Give it more work.")
    for complaint in list(dict.fromkeys(f"{r.program}: {c}" for r in runs for c in r.complaints))[:3]:
        found.append(f"{complaint}.")
    if left := good.programs(good.column("left_behind") > 0):
        found.append(f"{', '.join(left)} left processes behind when it ended; they were killed. Time after the main process's end is not counted.")
    return found


def _differs_from_itself(experiment: Experiment, analysis: Analysis) -> list[str]:
    """What the A/A arm says against figures of time and of space."""
    found, unknown = [], []
    for metric in dict.fromkeys((experiment.time_metric, experiment.space_metric)):
        name, floor = units.in_sentence(metric), analysis.floor(metric)
        if math.isinf(floor):
            unknown.append(name)
        elif floor > _NOISY:
            found.append(f"The baseline differs from itself by {units.percent(floor, signed=False)} in {name} (the A/A arm). "
                         "Smaller differences than that mean nothing here; add blocks or quiet the machine.")
        if clear := [r.program for r in analysis.noise if r.metric == metric and r.ratio.excludes(1.0)]:
            found.append(f"The A/A arm's interval of {name} excludes 1 for {', '.join(clear)}. One in twenty does so by chance; more means the order or the machine biases the result.")
    if unknown and analysis.blocks:
        found.append(f"No A/A arm says how far the baseline differs from itself in {' and '.join(unknown)}, so there are no verdicts on that. "
                     "Its runs failed, their requests did, or it was not measured.")
    return found


class _Good:
    """The successful runs of the blocks, by column."""

    def __init__(self, table: Table):
        self._table, self._rows = table, table.good()
        self.count = int(self._rows.sum())
        self.block, self.arm, self.machine = (c[self._rows] for c in (table.block, table.arm, table.machine))

    def column(self, metric: str) -> np.ndarray:
        return self._table.column(metric)[self._rows]

    def programs(self, which: np.ndarray) -> list[str]:
        """The programs of some of the runs."""
        return sorted({self._table.arms[i][0] for i in np.unique(self.arm[which])})

    def variants(self) -> np.ndarray:
        """The name of each run's variant."""
        return np.array([arm.variant for arm in self._table.arms])[self.arm]

    def others_cores(self) -> np.ndarray:
        """Cores that other processes (and, on a virtual machine, other guests) kept busy during each run; nan where it cannot be judged."""
        wall = self.column("wall_s")
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(wall >= _SHORTEST_JUDGED_S, (self.column("others_cpu_s") + self.column("stolen_s")) / wall, np.nan)


def _failed_requests(good: _Good) -> list[str]:
    """Those of runs that succeeded all the same, which a few do not keep from it."""
    failed, names = good.column("failed_requests"), good.variants()
    counts = {name: int(failed[(names == name) & (failed > 0)].sum()) for name in np.unique(names).tolist()}
    told = ", ".join(f"{n} of {name}" for name, n in counts.items() if n)
    return [f"Requests failed in runs that succeeded otherwise ({told}). Each counts as longer than all others, so a percentile that it reaches is infinite."] if told else []


def _disturbed(good: _Good, runs: Sequence[Run]) -> list[str]:
    """Runs that others took CPU from, and who they were. The names are those of the runs that are listed."""
    cores = good.others_cores()
    judged = int((~np.isnan(cores)).sum())
    hit = cores > _DISTURBED_CORES
    count = int(hit.sum())
    if count <= 0.05 * judged:
        return []
    named = Counter()
    for run in runs:
        if run.block >= 0 and run.state == OK and run.others and run.metrics["wall_s"] >= _SHORTEST_JUDGED_S and \
                run.metrics["others_cpu_s"] + run.metrics["stolen_s"] > _DISTURBED_CORES * run.metrics["wall_s"]:
            named.update(run.others)
    stolen = good.column("stolen_s")[hit].sum() / good.column("wall_s")[hit].sum()
    most = ", ".join(f"{name} {seconds:.3g} s" for name, seconds in named.most_common(3))
    return [f"In {count} of {judged} runs other processes kept more than a tenth of a core busy; in the median of these runs {np.median(cores[hit]):.1f} cores"
            + (f", most of it {most}" if most else ", and the lab cannot see which they are") + "."
            + (f" The hypervisor gave {stolen:.1f} cores to other guests." if stolen > 0.05 else "")
            + " They share caches and memory with the program, so CPU time suffers too: stop them and measure again, or add blocks."]


def _drift(experiment: Experiment, good: _Good) -> list[str]:
    """The whole machine getting slower or faster during the measurement: medians of the first and last third of each machine's
    blocks."""
    time = good.column(experiment.time_metric)
    blocks, first_run, block_of_run = np.unique(good.block, return_index=True, return_inverse=True)
    if len(blocks) < 6:
        return []
    machine_of = good.machine[first_run]
    place = np.zeros(len(blocks), int)
    for machine in np.unique(machine_of):
        own = np.flatnonzero(machine_of == machine)
        place[own[:len(own) // 3]], place[own[len(own) - len(own) // 3:]] = 1, 2
    of_run = place[block_of_run]
    moved = []
    for arm, machine in np.unique(np.stack([good.arm, good.machine]), axis=1).T[:_DRIFT_GROUPS]:
        own = (good.arm == arm) & (good.machine == machine)
        first, last = time[own & (of_run == 1)], time[own & (of_run == 2)]
        if len(first) and len(last) and min(first.min(), last.min()) > 0 and math.isfinite(max(first.max(), last.max())):
            moved.append(math.log(np.median(last) / np.median(first)))
    drift = median(moved) if moved else 0.0
    if abs(drift) <= math.log(1.05):
        return []
    return [f"The machine{'s' if len(np.unique(machine_of)) > 1 else ''} {'slowed down' if drift > 0 else 'sped up'} by {units.percent(abs(math.expm1(drift)), signed=False)} "
            "from the first to the last third of the measurement. Pairing within blocks removes most of that; a repeat on a quiet machine removes all."]


def sampling_cost(runs: Sequence[Run]) -> str | None:
    """What the launcher's own work took of one core while the programs ran."""
    table = Table.of(runs)
    wall, cost = table.column("wall_s"), table.column("sampling_s")
    shares = (cost / np.where(wall > 0, wall, np.nan))[table.measured() & (wall > 0.2) & ~np.isnan(cost)]
    return f"{100 * np.median(shares):.2g} % of one core (median over runs)" if len(shares) else None


def other_processes(runs: Sequence[Run]) -> str | None:
    """What else the machine did while the programs ran."""
    cores = _Good(Table.of(runs)).others_cores()
    cores = cores[~np.isnan(cores)]
    return f"kept {np.median(cores):.2f} cores busy in the median run, {cores.max():.2f} at most" if len(cores) else None


def missing(runs: Sequence[Run]) -> list[str]:
    """What this machine could not measure, and why."""
    by_reason: dict[str, list[str]] = {}
    for name, why in {name: why for run in runs for name, why in run.missing.items()}.items():
        by_reason.setdefault(why, []).append(name)
    return [f"{', '.join(sorted(names))}: {why}." for why, names in by_reason.items()]
