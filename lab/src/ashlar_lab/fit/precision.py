"""When to stop: every comparison's interval is narrow enough."""

from __future__ import annotations

from collections.abc import Sequence

from ashlar_lab.experiment.model import Experiment
from ashlar_lab.fit.cells import Cells
from ashlar_lab.fit.ratios import comparisons
from ashlar_lab.store.run import Run


def precise_enough(experiment: Experiment, runs: Sequence[Run]) -> bool:
    """Whether half the width of every time and space ratio against the baseline is below the wanted precision.
    Looks at widths only, never at whether a difference was found, so stopping does not favour an answer."""
    cells = Cells(runs)
    for _, _, _, first, second in comparisons(experiment):
        for metric in (experiment.time_metric, experiment.space_metric):
            ratio = cells.log_ratio(metric, first, second)
            if ratio is not None and not ratio.half_width() < experiment.stop.precision:
                return False
    return True
