"""The client of servers finds the end of every answer, as RFC 9112 says in section 6.3, and never waits for what cannot come."""

import contextlib
import socket
import subprocess
import threading
from dataclasses import dataclass, field

import pytest

from ashlar.memory import native
from ashlar_lab.measure import serve

REQUESTS = 12


@dataclass
class Server:
    """Answers each request but the `first` with the same pieces, sent apart; `closes` ends the connection after each answer."""

    pieces: tuple[bytes, ...]
    closes: bool = False
    first: bytes = b""
    connections: int = 0
    listener: socket.socket = field(default_factory=socket.socket)

    def __enter__(self):
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen()
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.listener.close()

    def _serve(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._answer, args=(client,), daemon=True).start()

    def _answer(self, client):
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        received = b""
        with client, contextlib.suppress(OSError):  # the client may have left
            while got := client.recv(65536):
                received += got
                while b"\r\n\r\n" in received:
                    received = received.partition(b"\r\n\r\n")[2]
                    self.first, pieces = b"", (self.first,) if self.first else self.pieces
                    for piece in pieces:
                        client.sendall(piece)
                    if self.closes:
                        return


@dataclass
class Seen:
    """What the client wrote: latencies in µs, -1 for a failure, and the hash of the bodies with whether they were all alike."""

    latencies: list[int]
    body: tuple[str, str]
    connections: int

    @property
    def answered(self):
        return sum(latency >= 0 for latency in self.latencies)


def drive(tmp_path, *pieces, closes=False, first=b"") -> Seen:
    with Server(pieces, closes, first) as server:
        result = tmp_path / "load"
        # One connection: an answer whose end is not found keeps every later request waiting.
        subprocess.run([native.program(serve.SOURCE), str(server.listener.getsockname()[1]), "100", str(REQUESTS / 100), "1", str(result), "/"], check=True, timeout=60)
        lines = result.read_text().splitlines()
        return Seen([int(line.split()[1]) for line in lines[:-1]], tuple(lines[-1].split()[2:]), server.connections)


def fnv1a(body: bytes) -> str:
    found = 14695981039346656037
    for byte in body:
        found = (found ^ byte) * 1099511628211 % 2**64
    return f"{found:016x}"


OK = b"HTTP/1.1 200 OK\r\n"
HELLO = OK + b"Content-Length: 5\r\n\r\nhello"
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(("pieces", "body"), [
    ((b"HTTP/1.1 204 No Content\r\n\r\n",), b""),
    ((b"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n",), b""),
    ((b"HTTP/1.1 304 Not Modified\r\nETag: x\r\n\r\n",), b""),
    ((b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5000\r\n\r\n",), b""),
    ((b"HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n",), b""),
    ((b"HTTP/1.1 100 Continue\r\n\r\n", HELLO), b"hello"),
    ((b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\n" + HELLO[:30], HELLO[30:]), b"hello"),
    ((OK + b"Content-Length:5\r\n\r\nhello",), b"hello"),
    ((OK + b"content-length:\t5 \r\n\r\nhello",), b"hello"),
    ((OK + b"Content-Length: 5, 5\r\nContent-Length: 5\r\n\r\nhello",), b"hello"),
    ((OK + b"Content-Length: 0\r\n\r\n",), b""),
    ((OK + b"X-Content-Length: 9\r\nContent-Length: 5\r\n\r\nhel", b"lo"), b"hello"),
    ((OK + CHUNKED + b"5\r\nhello\r\n0\r\n\r\n",), b"hello"),
    ((OK + CHUNKED + b"2\r", b"\nhe\r", b"\n003;name=\"a;b\"\r\nllo\r\n", b"0\r\n", b"\r\n"), b"hello"),
    ((OK + CHUNKED + b"A\r\n0123456789\r\na\r\nabcdefghij\r\n0\r\nTrailer-Field: 1\r\n", b"Another: 2\r\n", b"\r\n"), b"0123456789abcdefghij"),
    ((OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",), b"hello"),
    ((OK + b"Transfer-Encoding: gzip\r\ntransfer-encoding: Chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",), b"hello"),
    ((b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 5\r\n\r\nhello",), b"hello"),
    ((b"HTTP/1.1 200 OK\nContent-Length: 5\n\nhello",), b"hello"),
    ((b"HTTP/1.1 200\r\nContent-Length: 5\r\n\r\nhello",), b"hello"),
], ids=lambda value: None if isinstance(value, bytes) else b"".join(value)[:60].decode().replace("\r\n", "|"))
def test_an_answer_ends_where_its_head_says_and_the_connection_serves_the_next(tmp_path, pieces, body):
    seen = drive(tmp_path, *pieces)
    assert len(seen.latencies) == REQUESTS and seen.answered == REQUESTS
    assert seen.body == (fnv1a(body), "same")
    assert seen.connections == 1, "the connection is kept"


@pytest.mark.parametrize(("answer", "body"), [
    (OK + b"\r\nhello", b"hello"),
    (OK + b"Transfer-Encoding: gzip\r\nContent-Length: 2\r\n\r\nhello", b"hello"),
    (b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello", b"hello"),
    (OK + b"Connection: upgrade, close\r\nContent-Length: 5\r\n\r\nhello", b"hello"),
    (OK + b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n5\r\nhello\r\n0\r\n\r\n", b"hello"),
])
def test_an_answer_that_ends_the_connection_is_followed_by_a_new_one(tmp_path, answer, body):
    seen = drive(tmp_path, answer, closes=True)
    assert len(seen.latencies) == REQUESTS and seen.answered == REQUESTS
    assert seen.body == (fnv1a(body), "same")
    assert seen.connections == REQUESTS


@pytest.mark.parametrize("answer", [
    OK + b"Content-Length: five\r\n\r\nhello",
    OK + b"Content-Length: -1\r\n\r\nhello",
    OK + b"Content-Length: 5, 6\r\n\r\nhello",
    OK + b"Content-Length: 99999999999999999999999\r\n\r\nhello",
    OK + CHUNKED + b"five\r\nhello\r\n0\r\n\r\n",
    OK + CHUNKED + b"-5\r\nhello\r\n0\r\n\r\n",
    OK + CHUNKED + b"ffffffffffffffff\r\nhello\r\n0\r\n\r\n",
    OK + CHUNKED + b"4\r\nhello\r\n0\r\n\r\n",
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n",
    b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
    b"HTTP/2 200\r\n\r\n",
])
def test_an_answer_that_cannot_be_read_fails_at_once(tmp_path, answer):
    """The server keeps each connection open: whoever waits for more waits until the end, on its first connection."""
    seen = drive(tmp_path, answer)
    assert len(seen.latencies) == REQUESTS and seen.answered == 0
    assert seen.connections == REQUESTS, "each request was sent, on a connection of its own"


@pytest.mark.parametrize("answer", [OK + b"Content-Length: 9\r\n\r\nhello", OK + CHUNKED + b"5\r\nhello\r\n", OK + b"Content-Le", b""])
def test_an_answer_that_is_cut_off_is_a_failure(tmp_path, answer):
    seen = drive(tmp_path, answer, closes=True)
    assert len(seen.latencies) == REQUESTS and seen.answered == 0


def test_what_follows_an_answer_unasked_is_no_answer(tmp_path):
    seen = drive(tmp_path, HELLO + HELLO.replace(b"hello", b"other"))
    assert seen.answered == REQUESTS and seen.body == (fnv1a(b"hello"), "same")
    assert seen.connections == REQUESTS


def test_where_a_body_is_cut_into_chunks_does_not_change_it(tmp_path):
    seen = drive(tmp_path, OK + CHUNKED + b"5\r\nhello\r\n0\r\n\r\n")
    other = drive(tmp_path, OK + CHUNKED + b"1\r\nh\r\n4\r\nello\r\n0\r\n\r\n")
    assert seen.body == other.body == (fnv1a(b"hello"), "same")


@pytest.mark.parametrize("status", [b"404 Not Found", b"503 Service Unavailable"])
def test_the_body_of_an_error_is_no_answer_to_be_compared(tmp_path, status):
    error = HELLO.replace(b"200 OK", status).replace(b"hello", b"sorry")
    seen = drive(tmp_path, HELLO, first=error)
    assert seen.answered == REQUESTS - 1 and seen.body == (fnv1a(b"hello"), "same")
    assert drive(tmp_path, HELLO, first=HELLO.replace(b"hello", b"other")).body[1] == "varies"
    assert drive(tmp_path, error).body[1] == "none"
