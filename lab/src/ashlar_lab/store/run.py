"""One run: what was started, what came out, what it cost."""

from dataclasses import dataclass, field

from ashlar_lab.experiment.model import Arm

STATES = OK, CRASHED, TIMED_OUT, WRONG_OUTPUT, WRONG_LIBRARY = "ok", "crashed", "timed out", "wrong output", "wrong library"


@dataclass(frozen=True)
class Run:
    """Immutable record of one process tree from start to end. Block -1 holds the check runs.

    `metrics` carries its units in its names; `series` is (seconds, RSS MiB of the tree, processes) and `pss` is
    (seconds, PSS MiB, private MiB), both from the start of the command. `others` has the CPU seconds of the busiest
    other programs of the machine during the run, by name. `machine` names one of the store's machines; it is empty where
    the store has a single, nameless one.
    """

    block: int
    position: int
    program: str
    variant: str
    value: str | None
    role: str
    state: str
    reason: str = ""
    metrics: dict[str, float] = field(default_factory=dict)
    told: tuple[str, ...] = ()
    series: tuple[tuple[float, float, int], ...] = ()
    pss: tuple[tuple[float, float, float], ...] = ()
    latency_s: tuple[float, ...] = ()
    checksum: str | None = None
    mapped: str | None = None
    command: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    padding: int = 0
    errors_tail: str = ""
    complaints: tuple[str, ...] = ()
    missing: dict[str, str] = field(default_factory=dict)
    others: dict[str, float] = field(default_factory=dict)
    started: str = ""
    load: float = 0.0
    machine: str = ""

    @staticmethod
    def of(raw: dict) -> "Run":
        """From the fields as JSON has them, with lists for tuples."""
        tuples = {name: tuple(raw[name]) for name in ("told", "command", "complaints", "latency_s")}
        return Run(**{**raw, **tuples, **{name: tuple(map(tuple, raw[name])) for name in ("series", "pss")}})

    @property
    def arm(self) -> Arm:
        return Arm(self.program, self.variant, self.value, self.role)


def same_output(first: str, second: str) -> bool:
    """Whether two checksums meet. A server's has a part for each path, which is `-` where the answers varied within the run or all failed: such a path
    is not compared, and neither are hashes of two kinds."""
    return all(a == b for a, b in zip(first.split(), second.split()) if len(a) == len(b))
