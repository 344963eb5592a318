"""Two stores of one machine against each other: what changed, and is it surely more than the threshold?

Blocks of different stores are not pairs, so this is Yuen's test on the logarithms: difference of trimmed means, errors
added in squares, degrees of freedom after Welch. With `relative`, each side's paired ratio to its own baseline is
compared instead, which cancels a machine that was slower on one of the days. Of stores with several machines each machine
is compared with itself.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ashlar_lab.experiment.model import MAIN, Arm, Experiment
from ashlar_lab.fit.across import POPULATION, differ
from ashlar_lab.fit.cells import Cells
from ashlar_lab.fit.floor import floor_of, surely_above, surely_below
from ashlar_lab.fit.ratios import comparisons
from ashlar_lab.fit.trimmed import Estimate, Trimmed, exp_estimate, mean, nothing, of_means, summed, trimmed
from ashlar_lab.store.run import OK, Run
from ashlar_lab.store.table import Table, other_outputs

WORSE, BETTER, UNDECIDED, SAME = "worse", "better", "undecided", "within threshold"


@dataclass(frozen=True)
class Difference:
    """Second store over first for one metric of one arm. `judged` looks at the interval, never at the mean alone, and at the noise
    floor: how far the A/A arm, of the noisier store where there are two, differs from 1. `failed` says how runs of the second store failed, or that
    they print something else. Where they do, or none failed in the first store, or none succeeds any more, it is worse, whatever the ratio."""

    program: str
    variant: str
    value: str | None
    metric: str
    ratio: Estimate
    floor: float
    judged: str
    failed: str = ""


def differences(experiment: Experiment, first: Sequence[Run], second: Sequence[Run], metrics: Sequence[str] | None,
                threshold: float, relative: bool, later: Experiment | None = None) -> list[Difference]:
    """Every arm of the first store; what the second one lacks is undecided. `threshold` is a fraction: 0.05 lets 5 % pass. `later` describes the
    second store where it is another experiment."""
    later = later or experiment
    a, b = Cells(first), Cells(second)
    arms = [arm for arm in experiment.arms() if arm.role == MAIN and not (relative and arm.variant == experiment.baseline)]
    asked = {arm: [arm, *([_of_baseline(experiment, arm)] if relative else [])] for arm in arms}
    same = {arm: [_same(experiment, one, later) for one in own] for arm, own in asked.items()}
    others = other_outputs(a.table.outputs(), b.table.outputs())

    def ratio(arm: Arm, metric: str) -> Estimate:
        found = _between_machines(_side(a, metric, asked[arm]), _side(b, metric, same[arm])) if all(same[arm]) else None
        return found or nothing()

    def failed(arm: Arm) -> tuple[str, bool]:
        pairs = [(here, there) for here, there in zip(asked[arm], same[arm]) if there and b.outcomes(there)[1]]
        names = {there: here.label() for here, there in pairs}
        told = filter(None, (*(failures(second, names.get) if names else ()), others.get(arm.program)))
        return "; ".join(told), arm.program in others or any(_fails_now(a.outcomes(here), b.outcomes(there)) for here, there in pairs)

    return _differences([(experiment, a), (later, b)], metrics, threshold, {arm: failed(arm) for arm in arms}, ratio)


def _fails_now(before: tuple[int, int], now: tuple[int, int]) -> bool:
    """From how many runs succeeded and how many failed: whether some fail where none did, or all where some did not."""
    return before[0] > 0 and now[1] > 0 and (before[1] == 0 or now[0] == 0)


def within(experiment: Experiment, runs: Sequence[Run], metrics: Sequence[str] | None, threshold: float) -> list[Difference]:
    """Every variant against the baseline in the same blocks: the paired ratio, judged as a difference of stores is."""
    cells = Cells(runs)
    arms = {Arm(program, variant, value): pair for program, variant, value, *pair in comparisons(experiment)}
    return _differences([(experiment, cells)], metrics, threshold, dict.fromkeys(arms, ("", False)), lambda arm, metric: cells.asked_ratio(metric, *arms[arm]))


def failures(runs: Sequence[Run], named: Callable[[Arm], str | None]) -> list[str]:
    """How many runs failed of those whose arm gets a name, and why, a sentence for each name and reason."""
    table = Table.of(runs)
    kinds, counts = np.unique(np.stack([table.arm, table.state, table.reason], axis=1), axis=0, return_counts=True)
    whole, bad = Counter(), Counter()
    for (arm, state, reason), n in zip(kinds.tolist(), counts.tolist()):
        if name := named(table.arms[arm]):
            whole[name] += n
            bad[name, table.reasons[reason]] += n if table.states[state] != OK else 0
    return [f"{count} of {whole[name]} runs of {name}: {reason}" for (name, reason), count in bad.items() if count]


def _differences(stores: Sequence[tuple[Experiment, Cells]], metrics: Sequence[str] | None, threshold: float, arms: Mapping[Arm, tuple[str, bool]],
                 ratio_of: Callable[[Arm, str], Estimate]) -> list[Difference]:
    """Of every arm, with how its runs failed and whether that is worse, and every metric; the metrics are the first store's time and space where none are named. What is asked
    and has no ratio is undecided: a gate that leaves it out would let it pass."""
    experiment = stores[0][0]
    floors = {metric: max(floor_of(own, cells, metric) for own, cells in stores) for metric in metrics or dict.fromkeys((experiment.time_metric, experiment.space_metric))}
    return [Difference(*arm[:3], metric, ratio := ratio_of(arm, metric), floor, WORSE if is_worse else _judged(ratio, threshold, metric.endswith("_per_s"), floor), failed)
            for arm, (failed, is_worse) in arms.items() for metric, floor in floors.items()]


def _of_baseline(experiment: Experiment, arm: Arm) -> Arm:
    """The arm of the baseline that an arm is compared with: at the same setting where both have it, else at the middle one."""
    baseline = experiment.variant(experiment.baseline)
    own = arm.value and baseline.value_at(experiment.variant(arm.variant).knob, arm.value)
    return Arm(arm.program, baseline.name, own or baseline.middle_value())


def _same(experiment: Experiment, arm: Arm, later: Experiment) -> Arm | None:
    """The arm of another experiment that is this one: knobs are paired by name and value."""
    if arm.value is None:
        return arm
    knob = experiment.variant(arm.variant).knob
    value = next((v.value_at(knob, arm.value) for v in later.variants if v.name == arm.variant), None)
    return None if value is None else arm._replace(value=value)


def _side(cells: Cells, metric: str, arms: Sequence[Arm]) -> dict[str, Trimmed]:
    """One store's side, by machine: an arm, or its ratio to another."""
    groups = cells.log_ratios(metric, *arms) if len(arms) > 1 else cells.logs(metric, *arms)
    return {machine: trimmed(logs) for machine, logs in groups.items()}


def _between_machines(first: dict[str, Trimmed], second: dict[str, Trimmed]) -> Estimate | None:
    """Second over first, each machine against itself; None when no machine is in both."""
    both = sorted(first.keys() & second.keys())
    if not both:
        return None
    each = [summed([second[m], first[m].negated()]) for m in both]
    each = [replace(e, freedom=int(e.freedom)) for e in each]
    n = min(sum(side[m].n for m in both) for side in (first, second))
    known = len(each) < POPULATION and all(e.freedom >= 1 for e in each) and not differ(each)
    means = mean(each, n) if known else of_means([e.mean for e in each], n)
    return exp_estimate(means)


def _judged(ratio: Estimate, threshold: float, more_is_better: bool, floor: float) -> str:
    bar = 1 + threshold
    if more_is_better:
        ratio = ratio.inverse()
    if surely_above(ratio, bar, floor):
        return WORSE
    if surely_below(ratio, 1 / bar, floor):
        return BETTER
    if surely_below(ratio, bar, floor) and surely_above(ratio, 1 / bar, floor):
        return SAME
    return UNDECIDED
