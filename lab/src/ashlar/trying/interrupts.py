"""Ctrl-C, and the other signals that ask `ashlar try` to end."""

import contextlib
import math
import signal
import time
from collections.abc import Iterator

_NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """While this lasts they are counted and do nothing else, so that what has been started is ended and what was measured is kept however many come.
    One that is ignored stays so, as SIGHUP under nohup."""

    def __init__(self):
        self.count, self._raises, self._raises_from = 0, False, math.inf

    def __enter__(self) -> "Interrupts":
        self._before = {number: signal.signal(number, self._came) for number in _NUMBERS if signal.getsignal(number) != signal.SIG_IGN}
        return self

    def __exit__(self, *_) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @contextlib.contextmanager
    def raised(self) -> Iterator[None]:
        """Where the first one raises KeyboardInterrupt, also when it has come before. Not for asyncio: tasks that it hits are never done.
        Nor where processes are waited for: an end that it hits is told by the kernel once, and forgotten."""
        self._raises = True
        try:
            self.check()
            yield
        finally:
            self._raises = False

    def raised_after(self, seconds: float) -> None:
        """From then on each one raises KeyboardInterrupt. For what takes a moment, unless it hangs: a pipe that nobody reads takes nothing."""
        self._raises_from = time.monotonic() + seconds

    def check(self) -> None:
        if self.count:
            raise KeyboardInterrupt

    @property
    def hurry(self) -> bool:
        """Whether somebody has asked again."""
        return self.count > 1

    def _came(self, *_) -> None:
        self.count += 1
        if self._raises or time.monotonic() >= self._raises_from:
            self._raises = False
            raise KeyboardInterrupt
