"""Processes that `forking.py` starts."""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
from pathlib import Path


def _told_to_programs(environment) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name != "PYTEST_CURRENT_TEST"}


class Process:
    """A process that is no child of this one."""

    def __init__(self, process_id: int):
        self.pid, self._handle = process_id, os.pidfd_open(process_id)

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._handle, signal.SIGKILL)

    def has_ended(self, timeout_s: float | None = None) -> bool:
        return bool(select.select([self._handle], [], [], timeout_s)[0])

    def end(self) -> None:
        self.kill()
        self.has_ended()
        os.close(self._handle)


class Forks:
    """A process that starts others."""

    def __init__(self):
        self._lock, self._environment = threading.Lock(), _told_to_programs(os.environ)
        self._process = subprocess.Popen([sys.executable, str(Path(__file__).with_name("forking.py"))], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def began_with(self, environment) -> bool:
        return _told_to_programs(environment) == self._environment

    def start(self, program: str, arguments, folder: Path, output=os.devnull, errors=os.devnull, **rest) -> Process:
        order = {"program": program, "arguments": list(map(str, arguments)), "folder": str(folder), "output": str(output), "errors": str(errors), **rest}
        with self._lock:
            print(json.dumps(order), file=self._process.stdin, flush=True)
            return Process(int(self._process.stdout.readline()))

    def finished(self, program: str, arguments, folder: Path, told: Path, timeout_s: float) -> subprocess.CompletedProcess:
        """The program, when it has ended. The folder `told` is for what it says."""
        process = self.start(program, arguments, folder, told / "output", told / "errors", environment=dict(os.environ), status=str(told / "status"))
        try:
            if not process.has_ended(timeout_s):
                os.killpg(process.pid, signal.SIGKILL)
                raise subprocess.TimeoutExpired([program, *arguments], timeout_s)
        finally:
            process.end()
        output, errors, status = ((told / name).read_text() for name in ("output", "errors", "status"))
        return subprocess.CompletedProcess([program, *arguments], int(status), output, errors)

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait()
