"""When to stop: every comparison's interval is narrow enough."""

from __future__ import annotations

from collections.abc import Sequence

from ashlar_lab.experiment.model import MAIN, Experiment
from ashlar_lab.fit.cells import Cells, common_values
from ashlar_lab.store.run import Run


def precise_enough(experiment: Experiment, runs: Sequence[Run]) -> bool:
    """Whether half the width of every time and space ratio against the baseline is below the wanted precision.
    Looks at widths only, never at whether a difference was found, so stopping does not favour an answer."""
    cells = Cells(runs)
    baseline = experiment.variant(experiment.baseline)
    for program in experiment.programs:
        for variant in experiment.variants:
            if variant.name == baseline.name:
                continue
            for value in common_values(variant.values, baseline.values):
                first = (program.name, variant.name, value if variant.values else None, MAIN)
                second = (program.name, baseline.name, value if baseline.values else None, MAIN)
                for metric in (experiment.time_metric, experiment.space_metric):
                    ratio = cells.log_ratio(metric, first, second)
                    if ratio is not None and not ratio.half_width() < experiment.stop.precision:
                        return False
    return True
