"""Two stores of one machine against each other: what changed, and is it surely more than the threshold?

Blocks of different stores are not pairs, so this is Yuen's test on the logarithms: difference of trimmed means, errors
added in squares, degrees of freedom after Welch. With `relative`, each side's paired ratio to its own baseline is
compared instead, which cancels a machine that was slower on one of the days. Of stores with several machines each machine
is compared with itself.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from ashlar_lab.experiment.model import MAIN, Arm, Experiment
from ashlar_lab.fit.across import POPULATION
from ashlar_lab.fit.cells import Cells
from ashlar_lab.fit.floor import floor_of, surely_above, surely_below
from ashlar_lab.fit.ratios import comparisons, metrics_of
from ashlar_lab.fit.trimmed import Estimate, Trimmed, exp_estimate, mean, of_means, summed, trimmed
from ashlar_lab.store.run import Run

WORSE, BETTER, UNDECIDED, SAME = "worse", "better", "undecided", "within threshold"


@dataclass(frozen=True)
class Difference:
    """Second store over first for one metric of one arm. `judged` looks at the interval, never at the mean alone, and at the noise
    floor: how far the A/A arm, of the noisier store where there are two, differs from 1."""

    program: str
    variant: str
    value: str | None
    metric: str
    ratio: Estimate
    floor: float
    judged: str


def differences(experiment: Experiment, first: Sequence[Run], second: Sequence[Run], metrics: Sequence[str] | None,
                threshold: float, relative: bool, later: Experiment | None = None) -> list[Difference]:
    """Every arm that both stores have. `threshold` is a fraction: 0.05 lets 5 % pass. `later` describes the second store where it is another
    experiment."""
    later = later or experiment
    a, b = Cells(first), Cells(second)
    arms = [arm for arm in experiment.arms() if arm.role == MAIN and not (relative and arm.variant == experiment.baseline)]

    def ratio(arm: Arm, metric: str) -> Estimate | None:
        asked = (arm, _of_baseline(experiment, arm)) if relative else (arm,)
        same = [_same(experiment, one, later) for one in asked]
        return _between_machines(_side(a, metric, asked), _side(b, metric, same)) if all(same) else None

    return _differences([(experiment, a), (later, b)], metrics, threshold, arms, ratio)


def within(experiment: Experiment, runs: Sequence[Run], metrics: Sequence[str] | None, threshold: float) -> list[Difference]:
    """Every variant against the baseline in the same blocks: the paired ratio, judged as a difference of stores is."""
    cells = Cells(runs)
    arms = {Arm(program, variant, value): pair for program, variant, value, *pair in comparisons(experiment)}

    return _differences([(experiment, cells)], metrics, threshold, arms, lambda arm, metric: cells.ratio(metric, *arms[arm]))


def _differences(stores: Sequence[tuple[Experiment, Cells]], metrics: Sequence[str] | None, threshold: float, arms: Iterable[Arm], ratio_of: Callable) -> list[Difference]:
    """Of every arm and metric that has a ratio; the metrics are the first store's time and space where none are named and all stores have them."""
    experiment = stores[0][0]
    known = [metrics_of(experiment, cells.table) for _, cells in stores]
    usual = [m for m in dict.fromkeys((experiment.time_metric, experiment.space_metric)) if all(m in of_store for of_store in known)]
    floors = {metric: max(floor_of(own, cells, metric) for own, cells in stores) for metric in metrics or usual}
    return [Difference(*arm[:3], metric, ratio, floor, _judged(ratio, threshold, metric.endswith("_per_s"), floor))
            for arm in arms for metric, floor in floors.items() if (ratio := ratio_of(arm, metric))]


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
    known = len(each) < POPULATION and all(e.freedom >= 1 for e in each)
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
