"""One run of the command on one Ruby: start it, wait until it answers, ask it, end it."""

import hashlib
import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from ashlar import files
from ashlar.errors import BadInput
from ashlar.trying import collector, launch, requests, server, watch
from ashlar.trying.collector import Collected
from ashlar.trying.interrupts import Interrupts
from ashlar.trying.process import SOON_S, Process
from ashlar.trying.requests import Answered
from ashlar.trying.rubies import Ruby
from ashlar.trying.server import Address
from ashlar.trying.watch import Sample, Seen, Watcher

WATCH_S, ASK_S = 30.0, 40.0
_IN_TURN, _IN_TURN_S = 100, 8.0
_RATE_MOST, BUSY = 50.0, 0.4
_LOOK_S = 0.05


@dataclass
class Plan:
    """What is asked of every run. `seconds` is none where nobody has said; `rate_per_s` and `in_turn` are what the first run found out, for all of them."""

    command: list[str]
    address: Address | None = None
    path: str = "/"
    paths: Sequence[str] = ()
    headers: Sequence[str] = ()
    rate_per_s: float | None = None
    rate_was_chosen: bool = False
    seconds: float | None = None
    warm_up_s: float = 5.0
    ready_s: float = 120.0
    grace_s: float = 10.0
    in_turn: int = 0
    ports: set[Address] = field(default_factory=set)  # where earlier runs listened


@dataclass
class Run:
    """What one run came to. Figures of CPU time, of the collector and of requests are of `window_s`, from its beginning to its end in seconds since the start."""

    side: str
    round: int
    seen: Seen
    window_s: tuple[float, float] = (0.0, 0.0)
    ready_s: float | None = None  # until a server answered or, where nothing is asked, listened
    cpu_s: float = 0.0
    collected: Collected | None = None
    answered: Answered | None = None
    address: Address | None = None
    status: int | None = None  # of a command that has ended by itself
    wall_s: float = 0.0
    others: float = 0.0  # the share of this machine's processors that other programs used meanwhile
    printed: str = ""  # a digest of its standard output
    interrupted: bool = False  # its window was cut short
    warnings: list[str] = field(default_factory=list)

    @property
    def samples(self) -> list[Sample]:
        return self.seen.samples

    @property
    def ended(self) -> bool:
        return self.status is not None


def carry_out(plan: Plan, side: str, number: int, ruby: Ruby, gems_of: Ruby, interrupts: Interrupts, tell: Callable[[str, Run], None]) -> Run:
    """Raises BadInput where the command cannot be run or a server does not answer, and KeyboardInterrupt while it waits for the server before.
    What an interrupt leaves otherwise is a run that was cut short, or a whole one where it was being ended."""
    with interrupts.raised():
        server.wait_until_free(plan.ports)
    with files.scratch("ashlar-try-") as scratch:
        process = Process(launch.prepare(plan.command, ruby, gems_of, scratch), scratch / "printed.out")
        try:
            with Watcher(process.started) as seen:
                one = _OneRun(plan, Run(side, number, seen), process, scratch, interrupts, tell)
                one.go()
        finally:
            process.end(plan.grace_s, lambda: interrupts.hurry)
        return one.finished()


class _Moment(NamedTuple):
    """CPU time so far, of the command, and of all but the command and this program."""

    at_s: float
    cpu_s: float
    others_s: float


class _OneRun:
    def __init__(self, plan: Plan, run: Run, process: Process, scratch: Path, interrupts: Interrupts, tell: Callable[[str, Run], None]):
        self._plan, self._run, self._process, self._scratch, self._interrupts, self._tell = plan, run, process, scratch, interrupts, tell
        self._begin_ns, self._end_ns = -math.inf, math.inf
        self._begin, self._open, self._ended = self._moment()._replace(cpu_s=0.0), False, False

    def go(self) -> None:
        try:
            self._measure()
        except KeyboardInterrupt:
            self._run.interrupted = True
        self._close_window()

    def _measure(self) -> None:
        if self._plan.paths:
            self._run.address = self._wait_for_server()
            self._run.ready_s = self._now()
            self._plan.ports.add(self._run.address)
            self._warm_up(self._run.address)
            self._ask(self._run.address)
        else:
            self._watch()

    def _now(self) -> float:
        return time.monotonic() - self._process.started

    # ── A server ───────────────────────────────────────────────────────────

    def _wait_for_server(self) -> Address:
        until, asked, listens, refused = time.monotonic() + self._plan.ready_s, [], [], []
        while time.monotonic() < until:
            self._interrupts.check()
            self._tell("starts", self._run)
            listens, refused = server.listening(self._process.pids())
            if not self._process.running and (listens or refused or not self._process.pids()):
                self._check_runs("before it answered")
            # The port alone is compared: a server that listens at all addresses of IPv6 is asked at 127.0.0.1 as well.
            asked = [a for a in listens if self._plan.address is None or a.port == self._plan.address.port]
            for address in asked:
                with self._interrupts.raised():  # which may take its time
                    if server.answers(address, self._plan.path, self._plan.headers):
                        return address
            time.sleep(_LOOK_S)
        where = ", ".join(map(str, listens))
        if self._plan.address and not asked:
            elsewhere = f", but at {where}" if where else ""
            raise self._failed(f"does not listen at {self._plan.address} after {self._plan.ready_s:.0f} s{elsewhere}; give another --url")
        if listens:
            raise self._failed(f"listens at {where} and has not answered HTTP there in {self._plan.ready_s:.0f} s; "
                               "give it longer with --ready, or name the address with --url")
        if refused:
            raise self._failed(f"listens only at {', '.join(refused)}, and only loopback is asked; have it listen at 127.0.0.1")
        raise self._failed(f"listens at no port after {self._plan.ready_s:.0f} s; have it listen at 127.0.0.1, or give it longer with --ready")

    def _check_runs(self, when: str) -> None:
        """The command itself: a server that outlives it could not be told to end as it wants to be."""
        if not self._process.running:
            self._check_foreground()
            raise self._failed(f"ended with status {self._process.status} {when}")

    def _check_foreground(self, otherwise: str = "") -> None:
        if self._process.status == 0 and self._goes_on_listening():
            raise self._failed(f"went into the background; have it stay in the foreground{otherwise}")

    def _goes_on_listening(self) -> bool:
        """What the command has started: a database or a browser may take a moment to end when a test suite has ended."""
        until = time.monotonic() + SOON_S
        while (listens := any(server.listening(self._process.pids()))) and time.monotonic() < until:
            time.sleep(_LOOK_S)
        return listens

    def _failed(self, what: str) -> BadInput:
        return BadInput(f"the command on {self._run.side} {what}{self._process.last_line()}")

    def _warm_up(self, address: Address) -> None:
        """Ask one by one first. What that shows of a server that nobody has given a rate for is how many requests it can take."""
        self._tell("warms up", self._run)
        plan, first = self._plan, not self._plan.in_turn
        count, limit_s = (max(_IN_TURN, len(plan.paths)), _IN_TURN_S) if first else (plan.in_turn, 4 * _IN_TURN_S)
        turn = requests.ask_in_turn(address, plan.paths, plan.headers, count, limit_s, self._goes_on)
        self._interrupts.check()
        self._check_runs("while it was asked")
        answered = [one for one in turn.latencies_s if math.isfinite(one)]
        if not answered:
            why = ", ".join([*(f"status {s}" for s in turn.statuses), *turn.failures]) or "nothing came"
            raise self._failed(f"answers none of {len(turn.latencies_s)} requests at {address} ({why}); ask for other paths with --get")
        if first:
            plan.in_turn = len(turn.latencies_s)
        if plan.rate_per_s is None:
            later = answered[len(answered) // 2:]
            workers = max([1, *(sample.workers for sample in self._run.samples[-1:])])
            able = min(workers, len(os.sched_getaffinity(0)))  # so many requests at once
            plan.rate_per_s, plan.rate_was_chosen = float(f"{min(_RATE_MOST, BUSY * able * len(later) / sum(later)):.2g}"), True
        if plan.warm_up_s > 0:
            self._requests(address, plan.warm_up_s)
            self._interrupts.check()

    def _ask(self, address: Address) -> None:
        self._open_window()
        self._tell("is asked", self._run)
        self._run.answered = self._requests(address, self._plan.seconds or ASK_S)
        self._interrupts.check()
        self._check_runs("while it was asked")

    def _requests(self, address: Address, seconds: float) -> Answered:
        return requests.ask(address, self._plan.paths, self._plan.headers, self._plan.rate_per_s, seconds, self._goes_on)

    def _goes_on(self) -> bool:
        self._tell("", self._run)
        return not self._interrupts.count and self._process.running

    # ── Anything else ──────────────────────────────────────────────────────

    def _watch(self) -> None:
        """Until it ends. A server does not; it is watched for a while from when it listens."""
        self._open = True
        until = time.monotonic() + self._plan.seconds if self._plan.seconds else None
        looked = 0.0
        while self._process.running:
            self._interrupts.check()
            self._tell("runs", self._run)
            if until is None and self._plan.seconds is None and time.monotonic() - looked > 0.5:
                looked = time.monotonic()
                addresses, refused = server.listening(self._process.pids())
                if addresses or refused:
                    self._run.ready_s, until = self._now(), time.monotonic() + WATCH_S
                    self._plan.ports.update(addresses)
            if until is not None and time.monotonic() >= until:
                break
            time.sleep(_LOOK_S if self._now() > 1 else 0.005)
        if not self._process.running and self._plan.seconds != math.inf:  # what a program leaves behind is no server to be measured
            self._check_foreground(", or, if it is a program that ends, give --seconds 0")

    # ── The window ─────────────────────────────────────────────────────────

    def _open_window(self) -> None:
        collector.ask(self._scratch, self._process.pids())
        self._begin_ns, self._begin, self._open = time.monotonic_ns(), self._moment(), True
        self._run.window_s = (self._now(), 0.0)

    def _close_window(self) -> None:
        if self._open:
            self._open, self._ended = False, not self._process.running
            begin, end = self._begin, self._moment()
            self._run.others = max(end.others_s - begin.others_s, 0.0) / ((end.at_s - begin.at_s) * (os.cpu_count() or 1))
            if not self._ended:
                self._run.cpu_s, self._run.window_s = end.cpu_s - begin.cpu_s, (self._run.window_s[0], self._now())
                collector.ask(self._scratch, self._process.pids())
                if self._run.answered is not None:
                    self._end_ns = time.monotonic_ns()

    def _moment(self) -> _Moment:
        cpu_s = self._process.cpu_s()
        return _Moment(time.monotonic(), cpu_s, watch.busy_s() - cpu_s - time.process_time())

    def finished(self) -> Run:
        """When nothing runs any more."""
        run, process = self._run, self._process
        if self._ended:
            run.status, run.wall_s = process.status, process.wall_s
            run.cpu_s = process.cpu_s()
            run.window_s = (0.0, process.wall_s)
            if process.left:
                run.warnings.append(f"on {run.side} the command ended and left {process.left} process{'es' if process.left > 1 else ''} behind, which had to be "
                                    "ended; a server has to stay in the foreground")
            run.printed = hashlib.sha256(process.output.read_bytes()).hexdigest()
            if process.status:
                run.warnings.append(f"on {run.side} the command ended with status {process.status}{process.last_line()}")
        run.collected = collector.read(self._scratch, self._begin_ns, self._end_ns)
        return run
