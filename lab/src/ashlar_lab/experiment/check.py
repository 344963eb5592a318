"""The rules every experiment obeys, whoever wrote it."""

import math
import re

from ashlar.errors import BadInput
from ashlar_lab.experiment.model import PERCENTILES, SLOWER_LEAST, Experiment, slower

TIME_METRICS = ("cpu_s", "wall_s", "user_s", *PERCENTILES)
HEADLINES = ("contrasts", "side-by-side", "ratios", "programs", "curves")
SPACE_METRICS = ("peak_mib", "mean_mib", "final_mib", "settled_mib", "peak_rss_mib", "cgroup_peak_mib")
_NAME = re.compile("[^\\s/,:=\x00-\x1f\x7f-\x9f\ud800-\udfff][^/,:=\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]{0,59}")


def checked(experiment: Experiment, source: str) -> Experiment:
    """Return the experiment unchanged, or raise BadInput for the first rule it breaks."""
    for what, things in (("program", experiment.programs), ("variant", experiment.variants)):
        seen = set()
        for thing in things:
            if not _NAME.fullmatch(thing.name):
                raise BadInput(f"{source}: the {what} name {thing.name!r} cannot be used; use letters, digits, blanks, '-', '_' or '.'")
            if thing.name in seen:
                raise BadInput(f"{source}: two {what}s are named {thing.name!r}; give each its own name")
            seen.add(thing.name)
    if experiment.baseline not in {v.name for v in experiment.variants}:
        raise BadInput(f"{source}: the baseline {experiment.baseline!r} is no variant; "
                       f"choose one of {', '.join(v.name for v in experiment.variants)}")
    for variant in experiment.variants:
        if variant.values and len(set(variant.values)) < 2:
            raise BadInput(f"{source}: the knob {variant.knob} of {variant.name} has one value ({variant.values[0]}); "
                           "give at least two (seven or more for a curve), or put it into the settings")
        if len(set(variant.values)) != len(variant.values):
            raise BadInput(f"{source}: the knob {variant.knob} of {variant.name} repeats a value: {', '.join(variant.values)}")
        for program in experiment.programs:
            if not program.command and not variant.command:
                raise BadInput(f"{source}: {program.name} has no command under {variant.name}; give the program or the variant a command")
    if experiment.time_metric not in TIME_METRICS:
        raise BadInput(f"{source}: time = {experiment.time_metric!r}; give one of {', '.join(TIME_METRICS)}")
    if experiment.space_metric not in SPACE_METRICS:
        raise BadInput(f"{source}: space = {experiment.space_metric!r}; give one of {', '.join(SPACE_METRICS)}")
    for contrast in experiment.contrasts:
        for name in (contrast.variant, contrast.against):
            if name not in {v.name for v in experiment.variants}:
                raise BadInput(f"{source}: the contrast {contrast.name!r} has {name!r}, which is no variant; "
                               f"choose among {', '.join(v.name for v in experiment.variants)}")
    for name in experiment.headline:
        if name not in HEADLINES:
            raise BadInput(f"{source}: headline has {name!r}; give some of {', '.join(HEADLINES)}")
    if experiment.time_metric.endswith("_ms") and not all(p.server for p in experiment.programs):
        raise BadInput(f"{source}: time = {experiment.time_metric!r} is a latency; only servers have one")
    _check_percentiles(experiment, source)
    for pattern in (p for program in experiment.programs for p in program.ignore_lines):
        try:
            re.compile(pattern)
        except re.error as error:
            raise BadInput(f"{source}: ignore_lines has {pattern!r}, which is no regular expression: {error}") from None
    _check_numbers(experiment, source)
    return experiment


def _check_percentiles(experiment: Experiment, source: str) -> None:
    """A percentile that is asked for must rest on enough requests."""
    asked = [m for m in (experiment.time_metric, *(c.metric for c in experiment.contrasts)) if m in PERCENTILES]
    for program in experiment.programs:
        for metric in asked if program.server else ():
            due = program.server.requests()
            if slower(metric, due) < SLOWER_LEAST:
                enough = math.ceil(SLOWER_LEAST / (1 - PERCENTILES[metric]) - 1e-9)
                raise BadInput(f"{source}: {metric} of {program.name} would rest on {slower(metric, due)} slower requests of {due}, and {SLOWER_LEAST} are the least; "
                               f"measure {enough} requests a block (rate times duration), or ask for a lower percentile")


def _check_numbers(experiment: Experiment, source: str) -> None:
    stop = experiment.stop
    if not 1 <= stop.blocks_min <= stop.blocks_max <= 10000:
        raise BadInput(f"{source}: blocks from {stop.blocks_min} to {stop.blocks_max}; give 1 <= blocks_min <= blocks_max <= 10000")
    if not 0 < stop.precision < 1:
        raise BadInput(f"{source}: precision = {stop.precision}; give a fraction such as 0.02 for an interval of ±2 %")
    if stop.budget_s is not None and stop.budget_s <= 0:
        raise BadInput(f"{source}: budget = {stop.budget_s} s; give a positive number of seconds")
    if not 0 < experiment.sample_hz <= 1000:
        raise BadInput(f"{source}: sample_hz = {experiment.sample_hz}; give 20 to 50")
    for program in experiment.programs:
        if program.timeout_s <= 0:
            raise BadInput(f"{source}: {program.name}: timeout_s = {program.timeout_s}; give a positive number of seconds")
        server = program.server
        if server and not (0 <= server.port < 65536 and server.rate_per_s > 0 and server.duration_s > 0 and server.connections > 0):
            raise BadInput(f"{source}: {program.name}: the server needs a port (0 for any free one), rate_per_s, duration_s and connections above zero")
        if server and not all(p.startswith("/") for p in server.paths):
            raise BadInput(f"{source}: {program.name}: server paths are {list(server.paths)}; each must start with '/'")
