"""The experiment's named questions: one variant against another in one metric, program by program."""

from dataclasses import dataclass

from ashlar_lab.experiment.model import Arm, Contrast, Experiment
from ashlar_lab.fit.cells import Cells
from ashlar_lab.fit.floor import floor_of, floor_of_difference, surely_above, surely_below
from ashlar_lab.fit.ratios import over_programs
from ashlar_lab.fit.trimmed import Estimate, nothing, trimmed
from ashlar_lab.metrics import unit_of

MET, MISSED, OPEN = "met", "missed", "open"


@dataclass(frozen=True)
class Answer:
    """The answer to one contrast. `program` is None for the geometric mean over programs. `goal` is the most the
    estimate may be; `judged` says where the estimate lies, by its interval and by the noise floor: surely at or below it, surely above
    it, or open. A goal always has an answer, and where there is no figure it is open."""

    contrast: str
    program: str | None
    estimate: Estimate
    goal: float | None
    judged: str | None


def answers(experiment: Experiment, cells: Cells) -> list[Answer]:
    """Variants with a knob have curves instead, and no goals, so they are left out."""
    asked = [c for c in experiment.contrasts if not experiment.variant(c.variant).values and not experiment.variant(c.against).values]
    return [answer for contrast in asked for answer in _answers(experiment, cells, contrast)]


def _answers(experiment: Experiment, cells: Cells, contrast: Contrast) -> list[Answer]:
    found, pairs_of_arms = [], []
    for program in experiment.programs:
        first, second = (Arm(program.name, name, None) for name in (contrast.variant, contrast.against))
        goal = program.goals.get(contrast.name)
        if contrast.difference:
            differences = cells.own_differences(contrast.metric, first, second)
            unit = unit_of(contrast.metric).symbol
            estimate = trimmed(differences).estimate(unit) if len(differences) else nothing(unit=unit)
        else:
            estimate = cells.asked_ratio(contrast.metric, first, second)
            pairs_of_arms += [(first, second)] if cells.log_ratios(contrast.metric, first, second) else []
        if estimate.n or goal is not None:
            floor = floor_of_difference(experiment, cells, contrast.metric, program.name) if contrast.difference else floor_of(experiment, cells, contrast.metric)
            found.append(Answer(contrast.name, program.name, estimate, goal, judged(estimate, goal, floor, contrast.difference)))
    if len(pairs_of_arms) > 1:
        found.append(Answer(contrast.name, None, over_programs(cells, contrast.metric, pairs_of_arms), None, None))
    return found


def judged(estimate: Estimate, goal: float | None, floor: float = 0.0, difference: bool = False) -> str | None:
    """Where the estimate lies relative to the goal, given the noise floor: a fraction, or of a difference an amount."""
    if goal is None:
        return None
    if difference:
        below, above = estimate.high <= goal and estimate.value + floor <= goal, estimate.low > goal and estimate.value - floor > goal
    else:
        below, above = surely_below(estimate, goal, floor), surely_above(estimate, goal, floor)
    return MET if below else MISSED if above else OPEN
