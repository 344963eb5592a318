"""Everything that can be said about an experiment, in one value."""

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass

from ashlar_lab.experiment.model import Experiment
from ashlar_lab.fit import ratios
from ashlar_lab.fit import curves as curve_fits
from ashlar_lab.fit.cells import Cells
from ashlar_lab.fit.contrasts import Answer, answers
from ashlar_lab.fit.floor import largest
from ashlar_lab.fit.lowerbound import LowerBound, lower_bounds
from ashlar_lab.fit.machines import Machines, machines_of
from ashlar_lab.store.run import OK, Run


@dataclass(frozen=True)
class Analysis:
    """Estimates only; the sentences and pictures made of them belong to `report`."""

    blocks: int
    runs: int
    failures: dict[str, int]
    metrics: tuple[str, ...]
    levels: tuple[ratios.Level, ...]
    ratios: tuple[ratios.Ratio, ...]
    summaries: tuple[ratios.Summary, ...]
    noise: tuple[ratios.Ratio, ...]
    overheads: tuple[ratios.Overhead, ...]
    lower_bounds: tuple[LowerBound, ...]
    curves: tuple[curve_fits.Curve, ...]
    comparisons: tuple[curve_fits.Comparison, ...]
    answers: tuple[Answer, ...] = ()
    machines: Machines | None = None

    def served(self) -> list[str]:
        """What is said of requests: their rate, and the highest of the three usual percentiles that rests on enough of them."""
        highest = [m for m in ("p99_ms", "p90_ms", "p50_ms") if m in self.metrics][:1]
        return [m for m in ("requests_per_s", *highest) if m in self.metrics]

    def floor(self, metric: str) -> float:
        """The largest relative difference that the A/A arm of any program shows in this metric, as a fraction; infinite without one."""
        return largest((r.ratio for r in self.noise if r.metric == metric), self.blocks)

    def to_dict(self) -> dict:
        """As JSON has it, which knows no infinity: what is infinite or unknown is None."""
        return json.loads(json.dumps(dataclasses.asdict(self)), parse_constant=lambda _: None)

    def ratio(self, program: str, variant: str, metric: str, at_value: str | None = None):
        return next((r.ratio for r in self.ratios if (r.program, r.variant, r.metric, r.at_value) == (program, variant, metric, at_value)), None)

    def level(self, program: str, variant: str, metric: str, value: str | None = None):
        return next((r for r in self.levels if (r.program, r.variant, r.metric, r.value) == (program, variant, metric, value)), None)


def analyse(experiment: Experiment, runs: Sequence[Run]) -> Analysis:
    """The analysis of all runs of one experiment, machines being a factor of it."""
    cells = Cells(runs)
    table = cells.table
    metrics = ratios.metrics_of(experiment, table)
    curves, comparisons = [], []
    for program in experiment.programs if experiment.sweeps() else ():
        own, compared = curve_fits.curves_of(experiment, cells, program.name)
        curves += own
        comparisons += compared
    return Analysis(
        blocks=sum(cells.blocks_of.values()),
        runs=int(table.measured().sum()),
        failures={state: n for state, n in table.counts().items() if n and state != OK},
        metrics=tuple(metrics),
        levels=tuple(ratios.levels(experiment, cells, metrics)),
        ratios=tuple(ratios.ratios(experiment, cells, metrics)),
        summaries=tuple(ratios.summaries(experiment, cells, metrics)),
        noise=tuple(ratios.noise(experiment, cells, metrics)),
        overheads=tuple(ratios.overheads(experiment, cells, [experiment.space_metric, experiment.time_metric])),
        lower_bounds=tuple(lower_bounds(experiment, cells)),
        curves=tuple(curves),
        comparisons=tuple(comparisons),
        answers=tuple(answers(experiment, cells)),
        machines=machines_of(experiment, cells),
    )
