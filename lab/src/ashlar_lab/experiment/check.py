"""The rules every experiment obeys, whoever wrote it."""

import math
import re
from collections.abc import Iterator

from ashlar.errors import BadInput
from ashlar_lab.experiment.model import PATHS_MAX, PERCENTILES, SLOWER_LEAST, Experiment, quantity, slower

TIME_METRICS = ("cpu_s", "wall_s", "user_s", *PERCENTILES)
HEADLINES = ("contrasts", "side-by-side", "ratios", "programs", "curves")
SPACE_METRICS = ("peak_mib", "mean_mib", "final_mib", "settled_mib", "peak_rss_mib", "cgroup_peak_mib")
TIMEOUT_S_MAX = 1e9  # the launcher counts milliseconds
_NAME = re.compile("[^\\s/,:=\x00-\x1f\x7f-\x9f\ud800-\udfff][^/,:=\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]{0,59}")


def checked(experiment: Experiment, source: str) -> Experiment:
    """Return the experiment unchanged, or raise BadInput for the first rule it breaks."""
    for rules in (_rules_of_parts, _rules_of_metrics, _rules_of_patterns, _rules_of_numbers):
        for holds, complaint in rules(experiment):
            if not holds:
                raise BadInput(f"{source}: {complaint}")
    return experiment


def _rules_of_parts(experiment: Experiment) -> Iterator[tuple[object, str]]:
    """Whether a rule holds, and what to say where it does not: so are all rules."""
    names = [v.name for v in experiment.variants]
    for what, all_names in (("program", [p.name for p in experiment.programs]), ("variant", names)):
        for name in all_names:
            yield _NAME.fullmatch(name), f"the {what} name {name!r} cannot be used; use letters, digits, blanks, '-', '_' or '.'"
            yield all_names.count(name) == 1, f"two {what}s are named {name!r}; give each its own name"
    yield experiment.baseline in names, f"the baseline {experiment.baseline!r} is no variant; choose one of {', '.join(names)}"
    for v in experiment.variants:
        if v.values:
            yield len(set(v.values)) > 1, (f"the knob {v.knob} of {v.name} has one value ({v.values[0]}); "
                                           "give at least two (seven or more for a curve), or put it into the settings")
            yield len(set(map(quantity, v.values))) == len(v.values), f"the knob {v.knob} of {v.name} repeats a value: {', '.join(v.values)}"
        for p in experiment.programs:
            yield p.command or v.command, f"{p.name} has no command under {v.name}; give the program or the variant a command"


def _rules_of_metrics(experiment: Experiment) -> Iterator[tuple[object, str]]:
    time, space, names = experiment.time_metric, experiment.space_metric, [v.name for v in experiment.variants]
    yield time in TIME_METRICS, f"time = {time!r}; give one of {', '.join(TIME_METRICS)}"
    yield space in SPACE_METRICS, f"space = {space!r}; give one of {', '.join(SPACE_METRICS)}"
    asked = [c.name for c in experiment.contrasts]
    for contrast in experiment.contrasts:
        yield asked.count(contrast.name) == 1, f"two contrasts are named {contrast.name!r}; give each its own name"
        for name in (contrast.variant, contrast.against):
            yield name in names, f"the contrast {contrast.name!r} has {name!r}, which is no variant; choose among {', '.join(names)}"
            for p in experiment.programs:
                yield contrast.name not in p.goals or not experiment.variant(name).values, (
                    f"{p.name} has a goal for {contrast.name!r}, and {name} has a knob: curves compare variants with a knob; leave out the goal, or the knob")
    for name in experiment.headline:
        yield name in HEADLINES, f"headline has {name!r}; give some of {', '.join(HEADLINES)}"
    yield not time.endswith("_ms") or all(p.server for p in experiment.programs), f"time = {time!r} is a latency; only servers have one"
    for program in experiment.programs:
        for metric in (time, *(c.metric for c in experiment.contrasts)):
            if program.server and metric in PERCENTILES:  # it must rest on enough requests
                due = program.server.requests()
                enough = math.ceil(SLOWER_LEAST / (1 - PERCENTILES[metric]) - 1e-9)
                yield slower(metric, due) >= SLOWER_LEAST, (
                    f"{metric} of {program.name} would rest on {slower(metric, due)} slower requests of {due}, and {SLOWER_LEAST} are the least; "
                    f"measure {enough} requests a block (rate times duration), or ask for a lower percentile")


def _rules_of_patterns(experiment: Experiment) -> Iterator[tuple[object, str]]:
    for pattern in (p for program in experiment.programs for p in program.ignore_lines):
        try:
            re.compile(pattern.encode())  # output is looked at as bytes
        except re.error as error:
            yield False, f"ignore_lines has {pattern!r}, which is no regular expression: {error}"


def _rules_of_numbers(experiment: Experiment) -> Iterator[tuple[object, str]]:
    stop = experiment.stop
    yield 1 <= stop.blocks_min <= stop.blocks_max <= 10000, f"blocks from {stop.blocks_min} to {stop.blocks_max}; give 1 <= blocks_min <= blocks_max <= 10000"
    yield 0 < stop.precision < 1, f"precision = {stop.precision}; give a fraction such as 0.02 for an interval of ±2 %"
    yield stop.budget_s is None or stop.budget_s > 0, f"budget = {stop.budget_s} s; give a positive number of seconds"
    yield 0 < experiment.sample_hz <= 1000, f"sample_hz = {experiment.sample_hz}; give 20 to 50"
    yield experiment.turns_s is None or 0.05 <= experiment.turns_s <= 60, f"turns_s = {experiment.turns_s}; give seconds from 0.05 to 60, such as 0.5"
    yield experiment.turns_s is None or not all(p.server for p in experiment.programs), "servers take no turns: latencies would have the time in which a server stood still; leave out turns"
    for p in experiment.programs:
        yield 0 < p.timeout_s <= TIMEOUT_S_MAX, f"{p.name}: timeout_s = {p.timeout_s}; give a positive number of seconds, at most {TIMEOUT_S_MAX:.0f}"
        if s := p.server:
            yield all(map(math.isfinite, (s.rate_per_s, s.duration_s, s.warm_up_s, s.ready_timeout_s, s.stop_timeout_s))), f"{p.name}: a number of its server is not finite"
            yield len(s.paths) <= PATHS_MAX, f"{p.name}: the server has {len(s.paths)} paths; give at most {PATHS_MAX}"
            yield (0 <= s.port < 65536 and s.rate_per_s > 0 and s.duration_s > 0 and s.connections > 0,
                   f"{p.name}: the server needs a port (0 for any free one), rate_per_s, duration_s and connections above zero")
            yield all(path.startswith("/") for path in s.paths), f"{p.name}: server paths are {list(s.paths)}; each must start with '/'"
