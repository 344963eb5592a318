"""Before the blocks: one traced run of every program under every variant, and what each variant really is."""

from collections.abc import Callable, Iterator

from ashlar.errors import BadInput
from ashlar_lab import variants
from ashlar_lab.experiment.model import CHECK, Arm, Experiment
from ashlar_lab.measure import machine
from ashlar_lab.measure.run import run_arm
from ashlar_lab.store.run import OK, WRONG_LIBRARY, Run

# Under both of these a run is mostly the start of a process. Two numbers, because on a busy machine even `true`
# takes a while, and because a command may do its work by waiting.
_SHORTEST_CPU_S, _SHORTEST_WALL_S = 0.010, 0.050


def check_runs(experiment: Experiment, expected: dict[str, str], on_start: Callable[[Arm, str], None]) -> Iterator[Run]:
    """Does it work, is it long enough, is the library loaded? There are none where the experiment wants none. `expected` has the checksums of
    programs whose output is known, and takes in those that the baseline shows here."""
    arms = [Arm(p.name, v.name, v.middle_value(), CHECK) for p in experiment.programs
            for v in sorted(experiment.variants, key=lambda v: v.name != experiment.baseline) if experiment.check]
    for position, arm in enumerate(arms):
        on_start(arm, f"check {position + 1} of {len(arms)}")
        run = run_arm(experiment, arm, -1, position, expected)
        if run.state == WRONG_LIBRARY:
            raise BadInput(f"{arm.label()}: {run.reason}")
        if run.state != OK and arm.variant == experiment.baseline:
            told = f" It wrote: {run.errors_tail.splitlines()[-1]}" if run.errors_tail else ""
            raise BadInput(f"{arm.label()}: the baseline fails, {run.reason}.{told}")
        if run.state == OK and run.metrics["wall_s"] < _SHORTEST_WALL_S and run.metrics["cpu_s"] < _SHORTEST_CPU_S:
            raise BadInput(f"{arm.label()} ends after {run.metrics['wall_s'] * 1000:.1f} ms, too soon to compare anything; "
                           "give it more work, half a second or more")
        yield run


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
