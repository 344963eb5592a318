"""When to stop: every comparison's interval is narrow enough.

Of points, the ratio to the baseline is what is wanted. Of curves it is not the ratio at equal settings, which means little and
which unlike knobs do not have, but the mean ratio over the space that both curves cover. A curve that is compared with none must
itself be known: each of its points against its middle one, in the same block.
"""

import math
from collections.abc import Iterator, Sequence

from ashlar_lab.experiment.model import Arm, Experiment
from ashlar_lab.fit.cells import Cells
from ashlar_lab.fit.curves import curves_of
from ashlar_lab.fit.ratios import comparisons
from ashlar_lab.store.run import Run

# After so many blocks in a row the intervals must have been narrow enough. An interval is narrow by luck now and then, and stopping there would
# choose the intervals that miss the truth (docs/notes/lab-statistics.md).
IN_A_ROW = 5


def enough(experiment: Experiment, runs: Sequence[Run]) -> bool:
    """Whether measuring may stop: the intervals are narrow enough now, and were after each of the last blocks."""
    blocks = sorted({r.block for r in runs if r.block >= 0})
    return all(precise_enough(experiment, [r for r in runs if r.block <= last]) for last in reversed(blocks[-IN_A_ROW:]))


def precise_enough(experiment: Experiment, runs: Sequence[Run]) -> bool:
    """Whether half the width of every interval that counts is below the wanted precision. Looks at widths only, never at whether a
    difference was found, so stopping does not favour an answer."""
    return all(width < experiment.stop.precision for width in _half_widths(experiment, Cells(runs)))


def _half_widths(experiment: Experiment, cells: Cells) -> Iterator[float]:
    """Time and space of every variant against the baseline, where one of the two has no knob; then curves."""
    for _, _, _, first, second in comparisons(experiment):
        if first.value is None or second.value is None:
            yield from _of_pair(experiment, cells, first, second)
    for program in experiment.programs if experiment.sweeps() else ():
        yield from _of_curves(experiment, cells, program.name)


def _of_pair(experiment: Experiment, cells: Cells, first: Arm, second: Arm) -> Iterator[float]:
    for metric in (experiment.time_metric, experiment.space_metric):
        if ratio := cells.log_ratio(metric, first, second):
            yield ratio.half_width()


def _of_curves(experiment: Experiment, cells: Cells, program: str) -> Iterator[float]:
    curves, compared = curves_of(experiment, cells, program)
    areas = [c for c in compared if c.area]
    yield from (math.log(c.area.high / c.area.low) / 2 if c.area.low > 0 else math.inf for c in areas)
    for curve in curves:
        if not any(curve.variant in (c.first, c.second) for c in areas):
            arms = [Arm(program, curve.variant, point.value) for point in curve.points]
            for arm in arms:
                yield from _of_pair(experiment, cells, arm, arms[len(arms) // 2])
