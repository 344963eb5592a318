"""The frozen description of an experiment; everything in it is part of its identity.

Vocabulary: a *variant* is one contender (an allocator, a collector, a build). A *knob* is one of its settings
that takes several values. An *arm* is one cell of the experiment: a program under a variant at a knob value.
A *block* runs every arm once, in shuffled order; runs are paired within a block only.
"""

import dataclasses
import hashlib
import json
import math
import random
import shlex
from dataclasses import dataclass, field
from typing import NamedTuple

from ashlar_lab.experiment import typed

# Percentiles of latency that a server's run gives, and how many slower requests each must rest on.
PERCENTILES = {"p50_ms": 0.50, "p90_ms": 0.90, "p99_ms": 0.99, "p999_ms": 0.999}
SLOWER_LEAST = 20
# So many different paths the client asks a server for, at most (`load.c`).
PATHS_MAX = 256

MAIN, TWIN, CHECK = "main", "twin", "check"


@dataclass(frozen=True)
class Server:
    """How a server is driven: constant-rate open loop over HTTP/1.1 on loopback."""

    port: int
    rate_per_s: float
    duration_s: float = 10.0
    warm_up_s: float = 1.0
    paths: tuple[str, ...] = ("/",)
    connections: int = 32
    ready_timeout_s: float = 30.0
    stop_timeout_s: float = 10.0

    def requests(self) -> int:
        """How many are due after the warm-up."""
        return int(self.rate_per_s * (self.warm_up_s + self.duration_s)) - math.ceil(self.rate_per_s * self.warm_up_s)


def slower(percentile: str, requests: int) -> int:
    """How many of so many requests are slower than this percentile of them."""
    return requests - math.ceil(PERCENTILES[percentile] * requests)


@dataclass(frozen=True)
class Program:
    """One measured program. Strings may hold `{placeholders}` that a variant's settings fill."""

    name: str
    command: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    directory: str | None = None
    timeout_s: float = 600.0
    compare_output: bool = True
    ignore_lines: tuple[str, ...] = ()
    server: Server | None = None
    goals: dict[str, float] = field(default_factory=dict)  # contrast name → the most it may be
    figures: tuple[str, ...] = ()  # rows of its own table, after the experiment's metrics


@dataclass(frozen=True)
class Variant:
    """One contender: a built-in base, settings for it, and at most one knob that takes several values."""

    name: str
    base: str
    settings: dict[str, str] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    command: tuple[str, ...] = ()
    prefix: tuple[str, ...] = ()
    library: str | None = None
    preload: str | None = None
    knob: str | None = None
    values: tuple[str, ...] = ()
    directory: str | None = None  # where its commands run, in place of the program's

    def middle_value(self) -> str | None:
        """The knob value that stands for this variant when one is enough."""
        return self.values[len(self.values) // 2] if self.values else None

    def value_at(self, knob: str | None, value: str) -> str | None:
        """How this variant writes that value of that knob; None where it has not both. `1` and `1.0` are one value."""
        return next((own for own in self.values if self.knob == knob and quantity(own) == quantity(value)), None)


@dataclass(frozen=True)
class Contrast:
    """A question with a name: one metric of one variant against another, as a ratio or as a difference."""

    name: str
    metric: str
    variant: str
    against: str
    difference: bool = False


@dataclass(frozen=True)
class Stop:
    """Blocks go on until every interval stays narrow enough, or the blocks or the budget are spent."""

    blocks_min: int = 10
    blocks_max: int = 30
    precision: float = 0.02
    budget_s: float | None = None

    def extended(self, blocks: int | None = None, precision: float | None = None, budget_s: float | None = None) -> "Stop":
        """The rule with what is given in its place; blocks are exactly so many."""
        given = {"blocks_min": blocks, "blocks_max": blocks, "precision": precision, "budget_s": budget_s}
        return dataclasses.replace(self, **{k: v for k, v in given.items() if v is not None})

    def over_budget(self, seconds: float) -> bool:
        return self.budget_s is not None and seconds > self.budget_s


class Arm(NamedTuple):
    """One cell of the experiment. The twin is the baseline run a second time: the A/A arm."""

    program: str
    variant: str
    value: str | None
    role: str = MAIN

    def label(self) -> str:
        knob = f" {self.value}" if self.value is not None else ""
        return f"{self.program} · {self.variant}{knob}" + (" · A/A twin" if self.role == TWIN else "")


@dataclass(frozen=True)
class Experiment:
    """Programs × variants × knob values, with the rules of measuring them."""

    name: str
    programs: tuple[Program, ...]
    variants: tuple[Variant, ...]
    baseline: str
    stop: Stop = Stop()
    title: str = ""
    note: str = ""
    seed: int = 1
    time_metric: str = "cpu_s"
    space_metric: str = "peak_mib"
    sample_hz: float = 50.0
    turns_s: float | None = None  # the runs of a program in a block take turns of so many seconds; None: one after another
    check: bool = True
    figures: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()  # rows of each program's table, where the headline asks for these
    contrasts: tuple[Contrast, ...] = ()
    headline: tuple[str, ...] = ()

    def program(self, name: str) -> Program:
        return next(p for p in self.programs if p.name == name)

    def variant(self, name: str) -> Variant:
        return next(v for v in self.variants if v.name == name)

    def sweeps(self) -> bool:
        """Whether any variant has a knob, so that curves can be drawn."""
        return any(v.values for v in self.variants)

    def without_curve(self) -> list[Variant]:
        """The variants whose curve cannot be compared with the baseline's, since one of the two has no knob; none where nothing has a knob."""
        baseline = self.variant(self.baseline)
        return [v for v in self.variants if self.sweeps() and v is not baseline and not (v.values and baseline.values)]

    def compared_knob(self, variant: Variant) -> str | None:
        """The knob at whose values a variant without a curve is compared with the baseline: its own or the baseline's."""
        return variant.knob or self.variant(self.baseline).knob

    def arms(self) -> list[Arm]:
        """Every arm of one block, the A/A twins included, in a fixed order."""
        arms = [Arm(p.name, v.name, value) for p in self.programs for v in self.variants for value in v.values or (None,)]
        return arms + [Arm(p.name, self.baseline, self.variant(self.baseline).middle_value(), TWIN) for p in self.programs]

    def order(self, block: int) -> list[Arm]:
        """The arms of one block in the order they run: a pure function of seed and block."""
        arms = self.arms()
        random.Random(f"{self.seed}:{block}").shuffle(arms)
        return arms

    def other_work(self, other: "Experiment") -> str:
        """The first program that both have and that the two run otherwise, with how; empty where what a variant does is all that may differ."""
        for own in self.programs:
            for their in (p for p in other.programs if p.name == own.name):
                one, two = self._work(own), other._work(their)
                for what in one:
                    if one[what] != two[what]:
                        return f"{own.name} has the {what} {_shown(one[what])} in one and {_shown(two[what])} in the other"
        return ""

    def _work(self, program: Program) -> dict[str, object]:
        """What a program does, how it is run, and what of its output is compared, whatever the variant."""
        return {"command": program.command, "environment": program.environment, "server": program.server, "turns": None if program.server else self.turns_s,
                "ignored output": (program.ignore_lines or "none") if program.compare_output else "all"}

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self), sort_keys=True)

    def identity(self) -> str:
        """A hash of what is measured and how; two stores with the same identity hold the same experiment.
        When to stop is not part of it, so a run can be extended."""
        described = json.loads(self.to_json())
        for free in ("stop", "seed", "title", "note", "figures", "metrics", "contrasts", "headline"):
            described.pop(free)
        if self.turns_s is None:
            described.pop("turns_s")
        for program in described["programs"]:
            program.pop("goals")
            program.pop("figures")
        for variant in described["variants"]:
            if variant["directory"] is None:
                variant.pop("directory")
        return hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()[:16]

    @staticmethod
    def from_json(text: str) -> "Experiment":
        return typed.read(Experiment, json.loads(text), "the experiment")


def _shown(value) -> str:
    """What is worth saying of a part of a program."""
    if isinstance(value, tuple):
        return shlex.join(value)
    return str(dataclasses.asdict(value)) if dataclasses.is_dataclass(value) else str(value)


def quantity(value: str) -> float | str:
    """What a value of a knob is compared by."""
    try:
        return float(value)
    except ValueError:
        return value
