"""The runs of one block: one after another, or in turns."""

import dataclasses
from collections import defaultdict
from functools import partial

from ashlar_lab.experiment.model import Arm, Experiment
from ashlar_lab.measure import neighbours
from ashlar_lab.measure.run import run_arm
from ashlar_lab.measure.turns import taken
from ashlar_lab.store.run import Run


def groups(experiment: Experiment, block: int) -> list[list[tuple[int, Arm]]]:
    """The arms of a block with their positions, those together that take turns: the arms of one program. A ratio is between runs of one program.
    Servers take none: latencies would have the time in which a server stood still."""
    found: dict[object, list[tuple[int, Arm]]] = defaultdict(list)
    for position, arm in enumerate(experiment.order(block)):
        alone = experiment.turns_s is None or experiment.program(arm.program).server
        found[position if alone else arm.program].append((position, arm))
    return list(found.values())


def run_group(experiment: Experiment, group: list[tuple[int, Arm]], block: int, expected: dict[str, str]) -> list[Run]:
    """Run what `groups` gives, in its order. `expected` is as `run_arm` takes it."""
    arms = [partial(run_arm, experiment, arm, block, position, expected) for position, arm in group]
    before = neighbours.look()
    runs = taken(arms, experiment.turns_s) if len(arms) > 1 else [arms[0]()]
    return _with_neighbours(runs, neighbours.between(before, neighbours.look()))


def _with_neighbours(runs: list[Run], others: neighbours.Neighbours | None) -> list[Run]:
    """Each run gets the part of what others used that is its part of the time."""
    wall_s = sum(run.metrics["wall_s"] for run in runs)
    if not others or not wall_s:
        return runs
    parts = [others.part(run.metrics["wall_s"] / wall_s) for run in runs]
    return [dataclasses.replace(run, metrics={**run.metrics, "others_cpu_s": part.cpu_s, "stolen_s": part.stolen_s}, others=part.biggest) for run, part in zip(runs, parts)]
