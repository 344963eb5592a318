"""The same requests to both: due at a constant rate, whether the server keeps up or not, and counted from when they were due.

A server that stalls is charged for every request that had to wait, not only for the one that it was answering.
"""

import asyncio
import bisect
import contextlib
import math
import os
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field

from ashlar.trying.server import Address, request

CONNECTIONS_MAX = 64
RATE_MAX = 1000.0
_LEAST_SLOWER = 20
_LATE_S = 10.0
_LOOK_S = 0.2
_RECENT_S = 1.0  # when it is given up, what was due in the last second has had no fair chance
_HEAD_BYTES_MAX = 1 << 18


@dataclass
class Answered:
    """`latencies_s` has one number for each request, in the order in which they were due: infinite for one that failed or was not answered."""

    latencies_s: list[float] = field(default_factory=list)
    statuses: Counter = field(default_factory=Counter)
    failures: Counter = field(default_factory=Counter)

    @property
    def failed(self) -> int:
        return sum(math.isinf(one) for one in self.latencies_s)

    def percentile_s(self, share: float) -> float | None:
        """None where fewer than twenty requests are slower: it would be the luck of a few. Infinite where that many failed."""
        ordered = sorted(self.latencies_s)
        at = math.ceil(share * len(ordered))
        return ordered[at - 1] if len(ordered) - at >= _LEAST_SLOWER else None


class Unreadable(Exception):
    """What came is no answer."""


class NothingCame(Unreadable):
    """Not even the beginning of an answer."""


def ask(address: Address, paths: Sequence[str], headers: Sequence[str], rate_per_s: float, seconds: float, goes_on: Callable[[], bool],
        connections: int = CONNECTIONS_MAX) -> Answered:
    """Path after path, again and again. What `goes_on` says no to is given up, with what there is."""
    began = time.monotonic()
    due = [began + i / rate_per_s for i in range(max(1, round(rate_per_s * seconds)))]
    found = Answered([math.inf] * len(due))
    client = _Client(address, paths, headers, found, connections)
    if not asyncio.run(client.done(client.all_of(due), goes_on)):
        del found.latencies_s[bisect.bisect(due, time.monotonic() - _RECENT_S):]
    if (unanswered := len(found.latencies_s) - found.statuses.total() - found.failures.total()) > 0:
        found.failures["not answered"] += unanswered
    return found


def ask_in_turn(address: Address, paths: Sequence[str], headers: Sequence[str], count: int, limit_s: float, goes_on: Callable[[], bool]) -> Answered:
    """The next one when the last one has been answered: a server that nobody else asks takes this long for a request."""
    found = Answered()
    client = _Client(address, paths, headers, found, 1)
    asyncio.run(client.done(client.in_turn(count, limit_s), goes_on))
    return found


class _Client:
    """Adds what came of each request to `found`."""

    def __init__(self, address: Address, paths: Sequence[str], headers: Sequence[str], found: Answered, connections: int):
        self._address, self._texts, self._found = address, [request(address, path, headers) for path in paths], found
        self._room, self._idle = asyncio.Semaphore(connections), []

    async def done(self, asking: Coroutine, goes_on: Callable[[], bool]) -> bool:
        """Whether it came to its end; it is given up once nothing goes on."""
        task = asyncio.create_task(asking)
        while not task.done() and goes_on():
            await asyncio.wait([task], timeout=_LOOK_S)
        if task.done():
            task.result()
        self._close()
        return task.done()

    async def all_of(self, due: list[float]) -> None:
        asked = []
        for number, at in enumerate(due):
            await asyncio.sleep(at - time.monotonic())
            asked.append(asyncio.create_task(self._one(number, at)))
        await asyncio.wait(asked, timeout=_LATE_S)

    async def in_turn(self, count: int, limit_s: float) -> None:
        began = time.monotonic()
        for number in range(count):
            if time.monotonic() - began > limit_s:
                break
            self._found.latencies_s.append(math.inf)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(limit_s):
                    await self._one(number, time.monotonic())

    async def _one(self, number: int, due: float) -> None:
        async with self._room:
            try:
                status = await self._status(self._texts[number % len(self._texts)])
            except (OSError, Unreadable) as error:
                self._found.failures[_why(error)] += 1
                return
        self._found.statuses[status] += 1
        if status < 500:
            self._found.latencies_s[number] = time.monotonic() - due

    async def _status(self, text: bytes) -> int:
        """A connection that was kept may be closed by the server just when it is used again: that request is sent once more."""
        while True:
            kept, closes = bool(self._idle), True
            reader, writer = self._idle.pop() if kept else await asyncio.open_connection(self._address.host, self._address.port, limit=_HEAD_BYTES_MAX)
            try:
                writer.write(text)
                status, closes = await answer(reader)
                return status
            except NothingCame:
                if not kept:
                    raise
            finally:
                if closes:
                    writer.close()
                else:
                    self._idle.append((reader, writer))

    def _close(self) -> None:
        for _, writer in self._idle:
            writer.close()


async def answer(reader: asyncio.StreamReader) -> tuple[int, bool]:
    """The status of an answer, when it has come whole, and whether its connection ends with it."""
    status = 0
    try:
        while status < 200:  # what comes before is about an answer that is to come
            version, status, headers = _head(await reader.readuntil(b"\r\n\r\n"))
        closes = headers.get(b"connection") == b"close" or version == b"HTTP/1.0" and headers.get(b"connection") != b"keep-alive"
        if status in (204, 304):
            return status, closes
        if headers.get(b"transfer-encoding", b"").endswith(b"chunked"):
            while size := _size(await reader.readuntil(b"\r\n")):
                await reader.readexactly(size + 2)
            while await reader.readuntil(b"\r\n") != b"\r\n":
                pass
        elif (length := headers.get(b"content-length")) is not None:
            if not length.isdigit():
                raise Unreadable("a length that is no number")
            await reader.readexactly(int(length))
        else:
            await reader.read()
            closes = True
        return status, closes
    except asyncio.LimitOverrunError:
        raise Unreadable("a head without an end") from None
    except ValueError:  # thousands of digits
        raise Unreadable("a number that is too long") from None
    except (asyncio.IncompleteReadError, ConnectionError) as error:
        why = "closed before the answer was whole" if isinstance(error, EOFError) else _why(error)
        raise (Unreadable if status or getattr(error, "partial", b"") else NothingCame)(why) from None


def _head(text: bytes) -> tuple[bytes, int, dict[bytes, bytes]]:
    """Version, status and headers."""
    first, *lines = text.rstrip(b"\r\n").split(b"\r\n")
    words = first.split(None, 2)
    if len(words) < 2 or not words[0].startswith(b"HTTP/") or not words[1].isdigit():
        raise Unreadable("no HTTP")
    return words[0], int(words[1]), {name.strip().lower(): value.strip().lower() for name, _, value in (line.partition(b":") for line in lines)}


def _size(line: bytes) -> int:
    """Of a chunk."""
    try:
        size = int(line.split(b";")[0], 16)
    except ValueError:
        size = -1
    if size < 0:
        raise Unreadable("a chunk without a size")
    return size


def _why(error: Exception) -> str:
    return os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
