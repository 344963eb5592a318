"""The same requests to both: due at a constant rate, whether the server keeps up or not, and counted from when they were due.

A server that stalls is charged for every request that had to wait, not only for the one that it was answering.
"""

from __future__ import annotations

import bisect
import errno
import math
import selectors
import socket
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ashlar.trying.server import Address, request

CONNECTIONS_MAX = 64
RATE_MAX = 1000.0
_LEAST_SLOWER = 20
_LATE_S = 10.0
_RECENT_S = 1.0  # when it is interrupted, what was due in the last second has had no fair chance
_READ_BYTES = 1 << 16
_HEAD_BYTES_MAX = 1 << 18


@dataclass
class Answered:
    """`latencies_s` has one number for each request, in the order in which they were due: infinite for one that failed or was not answered."""

    latencies_s: list[float] = field(default_factory=list)
    statuses: Counter = field(default_factory=Counter)
    failures: Counter = field(default_factory=Counter)
    seconds: float = 0.0
    interrupted: bool = False

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


class _Connection:
    def __init__(self, address: Address):
        self.socket = socket.socket(address.family, socket.SOCK_STREAM)
        self.socket.setblocking(False)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if (error := self.socket.connect_ex((address.host, address.port))) not in (0, errno.EINPROGRESS):
            self.socket.close()
            raise OSError(error, "connect")
        self.request, self.unsent, self.came, self.asked = -1, b"", bytearray(), 0


def ask(address: Address, paths: Sequence[str], headers: Sequence[str], rate_per_s: float, seconds: float, goes_on: Callable[[], bool],
        connections: int = CONNECTIONS_MAX) -> Answered:
    """Path after path, again and again. `goes_on` says whether the server still runs."""
    return _Client(address, [request(address, path, headers) for path in paths], connections).run(rate_per_s, seconds, goes_on)


def ask_in_turn(address: Address, paths: Sequence[str], headers: Sequence[str], count: int, limit_s: float, goes_on: Callable[[], bool]) -> Answered:
    """The next one when the last one has been answered: a server that nobody else asks takes this long for a request."""
    whole, began = Answered(), time.monotonic()
    client = _Client(address, [request(address, path, headers) for path in paths], 1)
    for _ in range(count):
        if not goes_on() or time.monotonic() - began > limit_s:
            break
        client.next_one(whole, limit_s)
    client.close()
    whole.seconds = time.monotonic() - began
    return whole


class _Client:
    def __init__(self, address: Address, texts: list[bytes], connections: int):
        self._address, self._texts, self._connections_max = address, texts, connections
        self._selector, self._open, self._idle = selectors.DefaultSelector(), set(), []
        self._waiting: deque[int] = deque()
        self._found, self._due = Answered(), []

    def run(self, rate_per_s: float, seconds: float, goes_on: Callable[[], bool]) -> Answered:
        count = max(1, round(rate_per_s * seconds))
        began = time.monotonic()
        self._due = [began + i / rate_per_s for i in range(count)]
        self._found.latencies_s = [math.inf] * count
        try:
            self._drive(count, began, goes_on)
        except KeyboardInterrupt:
            self._found.interrupted = True
            del self._found.latencies_s[bisect.bisect(self._due, time.monotonic() - _RECENT_S):]
            count = len(self._found.latencies_s)
        self._found.seconds = time.monotonic() - began
        answered = sum(self._found.statuses.values()) + sum(self._found.failures.values())
        if answered < count:
            self._found.failures["not answered"] += count - answered
        self.close()
        return self._found

    def _drive(self, count: int, began: float, goes_on: Callable[[], bool]) -> None:
        sent, looked = 0, began
        while (now := time.monotonic()) < self._due[-1] + _LATE_S:
            while sent < count and self._due[sent] <= now:
                self._waiting.append(sent)
                sent += 1
            self._dispatch()
            if sent == count and not self._waiting and len(self._idle) == len(self._open):
                break
            if now - looked > 0.2:
                looked = now
                if not goes_on():
                    break
            self._wait(min(self._due[sent] - time.monotonic(), 0.2) if sent < count else 0.05)

    def next_one(self, whole: Answered, limit_s: float) -> None:
        """One request on its own, added to `whole`."""
        self._found, self._due = whole, [*self._due, time.monotonic()]
        whole.latencies_s.append(math.inf)
        number = len(whole.latencies_s) - 1
        self._waiting.append(number)
        until = time.monotonic() + limit_s
        self._dispatch()
        while time.monotonic() < until and len(self._idle) < len(self._open):
            self._wait(0.05)

    def close(self) -> None:
        for connection in list(self._open):
            self._drop(connection)
        self._selector.close()

    def _wait(self, timeout_s: float) -> None:
        if not self._selector.get_map():
            time.sleep(max(timeout_s, 0))
            return
        for key, events in self._selector.select(max(timeout_s, 0)):
            self._serve(key.data, events)

    def _dispatch(self) -> None:
        while self._waiting and (self._idle or len(self._open) < self._connections_max):
            number = self._waiting.popleft()
            try:
                connection = self._idle.pop() if self._idle else self._connect()
            except OSError as error:
                self._found.failures[_reason(error)] += 1
                continue
            connection.request, connection.asked = number, connection.asked + 1
            connection.unsent, connection.came = self._texts[number % len(self._texts)], bytearray()
            self._selector.modify(connection.socket, selectors.EVENT_READ | selectors.EVENT_WRITE, connection)

    def _connect(self) -> _Connection:
        connection = _Connection(self._address)
        self._open.add(connection)
        self._selector.register(connection.socket, selectors.EVENT_READ | selectors.EVENT_WRITE, connection)
        return connection

    def _drop(self, connection: _Connection) -> None:
        if connection in self._open:
            self._open.remove(connection)
            self._selector.unregister(connection.socket)
            connection.socket.close()
        if connection in self._idle:
            self._idle.remove(connection)

    def _serve(self, connection: _Connection, events: int) -> None:
        try:
            if events & selectors.EVENT_WRITE and connection.unsent:
                connection.unsent = connection.unsent[connection.socket.send(connection.unsent):]
                if not connection.unsent:
                    self._selector.modify(connection.socket, selectors.EVENT_READ, connection)
            if events & selectors.EVENT_READ:
                self._read(connection)
        except BlockingIOError:
            return
        except (OSError, Unreadable) as error:
            self._lost(connection, _reason(error))

    def _read(self, connection: _Connection) -> None:
        part = connection.socket.recv(_READ_BYTES)
        if connection.request < 0:  # it was closed, or says something that nobody asked for
            self._drop(connection)
            return
        connection.came += part
        status, closes = answer(connection.came, ended=not part)
        if status:
            self._answered(connection, status, closes or not part)
        elif not part:
            self._lost(connection, "closed before the answer was whole")

    def _answered(self, connection: _Connection, status: int, closes: bool) -> None:
        number, connection.request = connection.request, -1
        self._found.statuses[status] += 1
        if status < 500:
            self._found.latencies_s[number] = time.monotonic() - self._due[number]
        if closes:
            self._drop(connection)
        else:
            self._idle.append(connection)

    def _lost(self, connection: _Connection, why: str) -> None:
        """A connection that was kept may be closed by the server just when it is used again: that request is sent once more."""
        number, again = connection.request, connection.asked > 1 and not connection.came
        self._drop(connection)
        if number < 0:
            return
        if again:
            self._waiting.appendleft(number)
            self._dispatch()
        else:
            self._found.failures[why] += 1


def _reason(error: Exception) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)


def answer(came: bytes | bytearray, ended: bool) -> tuple[int, bool]:
    """The status of an answer that is whole, and whether its connection ends with it; 0 for one that is not whole."""
    head, found, _ = came.partition(b"\r\n\r\n")
    if not found:
        if len(came) > _HEAD_BYTES_MAX:
            raise Unreadable("a head without an end")
        return 0, False
    lines = bytes(head).split(b"\r\n")
    words = lines[0].split(None, 2)
    if len(words) < 2 or not words[0].startswith(b"HTTP/") or not words[1].isdigit():
        raise Unreadable("no HTTP")
    status = int(words[1])
    headers = {name.strip().lower(): value.strip().lower() for name, _, value in (line.partition(b":") for line in lines[1:])}
    if 100 <= status < 200:
        return answer(came[len(head) + 4:], ended)
    body = len(came) - len(head) - 4
    closes = headers.get(b"connection") == b"close" or words[0] == b"HTTP/1.0" and headers.get(b"connection") != b"keep-alive"
    if status in (204, 304):
        return status, closes
    if headers.get(b"transfer-encoding", b"").endswith(b"chunked"):
        return (status, closes) if _chunks_are_whole(came, len(head) + 4) else (0, False)
    length = headers.get(b"content-length")
    if length is not None:
        if not length.isdigit():
            raise Unreadable("a length that is no number")
        return (status, closes) if body >= int(length) else (0, False)
    return (status, True) if ended else (0, False)


def _chunks_are_whole(came: bytes | bytearray, at: int) -> bool:
    while (end := came.find(b"\r\n", at)) >= 0:
        try:
            size = int(bytes(came[at:end]).split(b";")[0], 16)
        except ValueError:
            raise Unreadable("a chunk without a size") from None
        if size == 0:
            return came.find(b"\r\n\r\n", end) >= 0
        at = end + 2 + size + 2
    return False
