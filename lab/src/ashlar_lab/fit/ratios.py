"""Paired ratios of every variant to the baseline, the A/A arm's noise floor, and overheads over the best."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ashlar_lab.experiment.model import MAIN, Arm, Experiment
from ashlar_lab.fit.across import POPULATION, agree, means
from ashlar_lab.fit.cells import Cells, common_values
from ashlar_lab.fit.floor import of_itself
from ashlar_lab.fit.trimmed import Estimate, exp_estimate, mean, of_means, trimmed
from ashlar_lab.metrics import COUNTED, SERVED, SPACES, TIMES, unit_of
from ashlar_lab.store.table import Table


@dataclass(frozen=True)
class Level:
    """The plain value of a metric in one arm, on the reference machine: seconds of several machines have no mean."""

    program: str
    variant: str
    value: str | None
    metric: str
    mean: Estimate
    median: float


@dataclass(frozen=True)
class Ratio:
    """One variant against the baseline: below 1 means less of the metric. `at_value` is the shared knob value."""

    program: str
    variant: str
    at_value: str | None
    metric: str
    ratio: Estimate


@dataclass(frozen=True)
class Summary:
    """Geometric mean of a variant's ratios over the programs that have one."""

    variant: str
    metric: str
    ratio: Estimate
    programs: int


@dataclass(frozen=True)
class Overhead:
    """How much more than the best variant of its program, as a fraction: 0.05 is 5 % over the best."""

    program: str
    variant: str
    metric: str
    best: str
    over: Estimate


def metrics_of(experiment: Experiment, table: Table) -> list[str]:
    """The metrics worth a column: the measured ones in a fixed order, then the programs' own figures."""
    present, told = table.metrics(), sorted({name for _, name in table.told})
    failed = np.nansum(table.column("failed_requests")) > 0
    fixed = [*(m for m in SERVED if failed or m != "failed_requests"), experiment.time_metric, *TIMES, experiment.space_metric, *SPACES, *COUNTED]
    return [m for m in dict.fromkeys(fixed) if m in present and m not in told] + told


def levels(experiment: Experiment, cells: Cells, metrics: Sequence[str]) -> list[Level]:
    """Every metric of every arm."""
    values = ((arm, metric, cells.own(metric, arm)) for arm in experiment.arms() if arm.role == MAIN for metric in metrics)
    return [Level(*arm[:3], metric, trimmed(own).estimate(unit_of(metric).symbol), float(np.median(own))) for arm, metric, own in values if len(own)]


def comparisons(experiment: Experiment) -> Iterator[tuple[str, str, str | None, Arm, Arm]]:
    """(program, variant, knob value, arm, arm of the baseline) of every comparison with the baseline."""
    baseline = experiment.variant(experiment.baseline)
    for program in experiment.programs:
        for variant in experiment.variants:
            if variant.name == baseline.name:
                continue
            for value, of_baseline in common_values(variant, baseline):
                yield program.name, variant.name, value or of_baseline, Arm(program.name, variant.name, value), Arm(program.name, baseline.name, of_baseline)


def ratios(experiment: Experiment, cells: Cells, metrics: Sequence[str]) -> list[Ratio]:
    asked = list(comparisons(experiment))
    return [Ratio(*arm, metric, found) for metric in metrics for *arm, first, second in asked if (found := cells.ratio(metric, first, second))]


def over_programs(cells: Cells, metric: str, arms: Sequence[tuple[Arm, Arm]]) -> Estimate:
    """The geometric mean of the ratios of pairs of arms, one for each program; each has one. It describes these programs, not a
    population of programs. With machines that stand for others, or that contradict each other about a program, each machine gives one mean over
    the programs, as whatever it favours it may favour in all of them."""
    by_arms = [cells.log_ratios(metric, first, second) for first, second in arms]
    shared = set.intersection(*map(set, by_arms))
    if len(shared) < 2 or len(shared) < POPULATION and all(agree(groups.values()) for groups in by_arms):
        parts = [cells.log_ratio(metric, first, second) for first, second in arms]
        return exp_estimate(mean(parts, min(p.n for p in parts)))
    with np.errstate(invalid="ignore"):
        over = np.mean([means([groups[machine] for machine in sorted(shared)]) for groups in by_arms], axis=0)
    return exp_estimate(of_means(over, min(sum(map(len, groups.values())) for groups in by_arms)))


def summaries(experiment: Experiment, cells: Cells, metrics: Sequence[str]) -> list[Summary]:
    """Over programs; experiments with a knob are summed up by their curves instead."""
    if experiment.sweeps() or len(experiment.programs) < 2:
        return []
    found = []
    for metric in metrics:
        by_variant: dict[str, list[tuple[Arm, Arm]]] = {}
        for _, variant, _, first, second in comparisons(experiment):
            if cells.log_ratios(metric, first, second):
                by_variant.setdefault(variant, []).append((first, second))
        found += [Summary(variant, metric, over_programs(cells, metric, arms), len(arms)) for variant, arms in by_variant.items()]
    return found


def noise(experiment: Experiment, cells: Cells, metrics: Sequence[str]) -> list[Ratio]:
    """The baseline against itself. Whatever differs here is noise, and its size is the noise floor."""
    value = experiment.variant(experiment.baseline).middle_value()
    return [Ratio(program.name, experiment.baseline, value, metric, found) for metric in metrics for program in experiment.programs
            if (found := of_itself(experiment, cells, metric, program.name))]


def overheads(experiment: Experiment, cells: Cells, metrics: Sequence[str]) -> list[Overhead]:
    """Each variant over the best of its program; with a knob, each variant at its own best value.

    The best is chosen by trimmed mean and compared by paired ratios, so a variant that ties with the best has an
    interval around zero. Choosing the minimum favours the lucky one a little; the interval does not correct that.
    """
    found = []
    for metric in metrics:
        for program in experiment.programs:
            chosen: list[tuple[float, Arm]] = []
            for variant in experiment.variants:
                arms = [Arm(program.name, variant.name, value) for value in variant.values or (None,)]
                if means := [(trimmed(own).mean, arm) for arm in arms if len(own := cells.own(metric, arm)) and own.min() > 0]:
                    chosen.append(min(means))
            if len(chosen) < 2:
                continue
            _, best = min(chosen, key=lambda mean_and_arm: mean_and_arm[0])
            for _, arm in chosen:
                if e := cells.ratio(metric, arm, best):
                    found.append(Overhead(program.name, arm.variant, metric, best.variant, Estimate(e.value - 1, e.low - 1, e.high - 1, e.n)))
    return found
