"""Starting a command and ending all of it: nothing that it has started outlives it."""

import contextlib
import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from ashlar.errors import BadInput
from ashlar.processes import descendants
from ashlar.trying import watch
from ashlar.trying.launch import Launch

_SET_PARENT_DEATH_SIGNAL, _SET_CHILD_SUBREAPER = 1, 36
_LOOK_S = 0.02
SOON_S = 0.3  # after the command's end most of what it has started has ended, too
_libc = ctypes.CDLL(None, use_errno=True)


class Process:
    """A command in a session of its own, its output in files. Whoever of its processes loses its parent becomes a child of this one, so that it
    is found, measured and ended as well."""

    def __init__(self, launch: Launch, output: Path):
        _libc.prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self.output, self.errors = output, output.with_suffix(".err")
        own = os.getpid()

        def before() -> None:
            _libc.prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGTERM, 0, 0, 0)  # should this program be killed
            if os.getppid() != own:
                os._exit(1)

        self.started = time.monotonic()
        with open(self.output, "wb") as out, open(self.errors, "wb") as errors:
            try:
                self._popen = subprocess.Popen(launch.command, env=launch.environment, stdin=subprocess.DEVNULL, stdout=out, stderr=errors,
                                               start_new_session=True, preexec_fn=before)
            except OSError as error:
                raise BadInput(f"cannot run {launch.command[0]!r}: {error.strerror}; check the path, or the first line of the script") from None
        self.pid, self.status, self._ended_cpu_s = self._popen.pid, None, 0.0
        self.wall_s = 0.0
        self.left = 0  # how many of its processes went on when it had ended

    @property
    def running(self) -> bool:
        """Whether the command itself runs; asks after processes that have ended."""
        for pid in [pid for pid, parent in descendants(os.getpid()) if parent == os.getpid()]:
            self._ask_after(pid)
        return self.status is None

    def _ask_after(self, pid: int) -> None:
        try:
            found, status, used = os.wait4(pid, os.WNOHANG)
        except ChildProcessError:
            return
        if found:
            self._ended_cpu_s += used.ru_utime + used.ru_stime
            if found == self.pid:
                self.status = self._popen.returncode = os.waitstatus_to_exitcode(status)
                self.wall_s = time.monotonic() - self.started

    def cpu_s(self) -> float:
        """Of all its processes, those that have ended among them, so far."""
        return self._ended_cpu_s + watch.cpu_s()

    def pids(self) -> list[int]:
        return [pid for pid, _ in descendants(os.getpid())]

    def end(self, grace_s: float, at_once: Callable[[], bool] = lambda: False) -> None:
        """Ask the command to end, then all of its processes, then end them. From when `at_once` says so, none of them is given time."""
        def wait(limit_s: float, goes_on: Callable[[], bool]) -> None:
            until = time.monotonic() + limit_s
            while time.monotonic() < until and goes_on() and not at_once():
                time.sleep(_LOOK_S)

        graceful = time.monotonic() + grace_s
        if self.running:
            _send(self.pid, signal.SIGTERM)
            wait(grace_s, lambda: self.running)
        if self.pids():
            wait(1.0 if self.status is None else SOON_S, self._any)
            self.left = len(self.pids())
            self._all(signal.SIGTERM)
            wait(max(graceful - time.monotonic(), grace_s / 2), self._any)
        until = time.monotonic() + 10
        while self._any() and time.monotonic() < until:  # again, for what was started meanwhile
            self._all(signal.SIGKILL)
            time.sleep(_LOOK_S)

    def _any(self) -> bool:
        return self.running or bool(self.pids())

    def _all(self, number: int) -> None:
        with contextlib.suppress(OSError):
            os.killpg(self.pid, number)
        for pid in self.pids():
            _send(pid, number)

    def last_line(self) -> str:
        """What it said last, to be told behind how it has failed; nothing where it said nothing."""
        for path in (self.errors, self.output):
            lines = [line.strip() for line in path.read_text(errors="replace").splitlines()]
            lines = [line for line in lines if line and not line.startswith("from ")]  # the place where Ruby raised an error is above where it was called from
            if lines:
                return f"; the last line of its output: {lines[-1][:300]}"
        return ""


def _send(pid: int, number: int) -> None:
    with contextlib.suppress(OSError):
        os.kill(pid, number)
