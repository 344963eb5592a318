"""Runs that take turns: all of them go on at the same time, but only one runs, and the others stand still.

A machine that others use, too, is faster in one minute than in the next. Runs one after another meet different minutes; runs that take turns meet the
same ones (docs/design/lab-turns.md).
"""

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from ashlar_lab.store.run import Run


# A launcher gives its command a moment to end, and then kills it.
_END_S = 20.0


class Stopped(Exception):
    """The measurement has ended before the run began."""


class Turn:
    """One run's part. The run's own thread calls `wait` and `began`, the thread that gives out the turns all others."""

    def __init__(self) -> None:
        self._may_begin, self._has_begun, self._stops = threading.Event(), threading.Event(), False
        self._process: subprocess.Popen | None = None
        self._told, self.fd = os.pipe()  # the launcher writes a byte when it knows its signals, and when its command stands still
        self.future: Future | None = None

    def wait(self) -> None:
        """Until the first turn."""
        self._may_begin.wait()
        if self._stops:
            raise Stopped

    def began(self, process: subprocess.Popen) -> None:
        """The run's launcher has been started."""
        self._process = process
        os.close(self.fd)  # what is read ends with the launcher
        if self._stops:  # `end` came before there was a process to end
            process.terminate()
        os.read(self._told, 1)
        self._has_begun.set()

    def is_over(self) -> bool:
        return self.future.done()

    def take(self, seconds: float | None) -> None:
        """Let the run go on for so long, or until it is over; with None until it is over."""
        if not self._may_begin.is_set():
            self._may_begin.set()
        else:
            self._process.send_signal(signal.SIGCONT)
        with contextlib.suppress(TimeoutError):
            self.future.exception(timeout=seconds)
        while not self._has_begun.wait(0.01):
            if self.is_over():
                return
        self._process.send_signal(signal.SIGUSR2)
        os.read(self._told, 1)

    def raise_error(self) -> None:
        """What the run has raised, if it has."""
        if self.is_over() and (error := self.future.exception()):
            raise error

    def end(self) -> None:
        """Stop the run wherever it is."""
        self._stops = True
        self._may_begin.set()
        if self._process:
            self._process.terminate()

    def make_sure(self) -> None:
        """Kill the launcher of a run that has not ended in time."""
        with contextlib.suppress(Exception):
            self.future.exception(timeout=_END_S)
        if not self.is_over() and self._process:
            self._process.kill()

    def close(self) -> None:
        os.close(self._told)
        if not self._process:
            os.close(self.fd)


def taken(runs: Sequence[Callable[[Turn], Run]], seconds: float) -> list[Run]:
    """What the runs give, in their order. Each is called in a thread of its own. The turns go there and back, so that a machine that becomes slower steadily
    favours none. When one raises an exception, the others end."""
    turns = [Turn() for _ in runs]
    with contextlib.ExitStack() as at_end:
        for turn in turns:
            at_end.callback(turn.close)
        pool = at_end.enter_context(ThreadPoolExecutor(len(runs)))
        try:
            for run, turn in zip(runs, turns):
                turn.future = pool.submit(run, turn)
            order = turns
            while any(not turn.is_over() for turn in turns):
                for turn in order:
                    if not turn.is_over():
                        is_last = sum(not turn.is_over() for turn in turns) == 1
                        turn.take(None if is_last else seconds)
                    turn.raise_error()
                order = order[::-1]
        except BaseException:
            for turn in turns:
                turn.end()
            for turn in turns:
                turn.make_sure()
            raise
        return [turn.future.result() for turn in turns]
