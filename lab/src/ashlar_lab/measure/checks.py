"""Before the blocks: one traced run of every program under every variant, and what each variant really is."""

from collections.abc import Callable, Iterator, Sequence

from ashlar.errors import BadInput
from ashlar_lab import variants
from ashlar_lab.errors import BaselineFails
from ashlar_lab.experiment.model import CHECK, Arm, Experiment
from ashlar_lab.measure import machine
from ashlar_lab.measure.block import run_group
from ashlar_lab.store.run import OK, WRONG_LIBRARY, Run

# Under both of these a run is mostly the start of a process. Two numbers, because on a busy machine even `true`
# takes a while, and because a command may do its work by waiting.
_SHORTEST_CPU_S, _SHORTEST_WALL_S = 0.010, 0.050


def check_runs(experiment: Experiment, expected: dict[str, str], on_start: Callable[[list[Arm], str], None]) -> Iterator[Run]:
    """Does it work, is it long enough, is the library loaded? There are none where the experiment wants none. `expected` has the checksums of
    programs whose output is known, and takes in those that the baseline shows here."""
    arms = [Arm(p.name, v.name, v.middle_value(), CHECK) for p in experiment.programs
            for v in sorted(experiment.variants, key=lambda v: v.name != experiment.baseline) if experiment.check]
    for position, arm in enumerate(arms):
        on_start([arm], f"check {position + 1} of {len(arms)}")
        (run,) = run_group(experiment, [(position, arm)], -1, expected)
        if run.state == WRONG_LIBRARY:
            raise BadInput(f"{arm.label()}: {run.reason}")
        if run.state != OK and arm.variant == experiment.baseline:
            raise BaselineFails(run)
        if run.state == OK and run.metrics["wall_s"] < _SHORTEST_WALL_S and run.metrics["cpu_s"] < _SHORTEST_CPU_S:
            raise BadInput(f"{arm.label()} ends after {run.metrics['wall_s'] * 1000:.1f} ms, too soon to compare anything; "
                           "give it more work, half a second or more")
        yield run


def refuse_more_than_fits(experiment: Experiment, checked: Sequence[Run]) -> None:
    """Runs that take turns are in memory together."""
    if experiment.turns_s is None or (free_mib := machine.available_mib()) is None:
        return
    peaks = {(run.program, run.variant): run.metrics["peak_mib"] for run in checked}
    for program in (p for p in experiment.programs if not p.server):
        wanted_mib = sum(peaks.get((program.name, arm.variant), 0.0) for arm in experiment.arms() if arm.program == program.name)
        if wanted_mib > free_mib:
            raise BadInput(f"{program.name}: its runs that take turns would fill {wanted_mib:.0f} MiB together, and {free_mib:.0f} MiB are free; "
                           "leave out turns, or some variants or values")


def contenders(experiment: Experiment) -> dict[str, dict]:
    """What each variant really is: executable, version, package of its library."""
    found = {}
    for variant in experiment.variants:
        starts = [variants.start_of(p, variant, variant.middle_value()) for p in experiment.programs]
        executables = {s.command[0]: machine.version_of(variants.executable(s), variant.directory or p.directory)
                       for s, p in zip(starts, experiment.programs)}
        package = machine.package_of(variant.preload) if variant.preload else None
        found[variant.name] = {"executables": executables, "library": variant.preload, "package": package}
    return found
