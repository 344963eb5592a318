"""Where a server listens, whether it answers, and whether its port is free. Only addresses of this machine's loopback are ever asked."""

import contextlib
import errno
import ipaddress
import os
import socket
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from ashlar.errors import BadInput

_LISTENS = "0A"
_ANSWER_S = 5.0
_FREE_S = 20.0


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"


def of_url(url: str) -> tuple[Address, str]:
    """The address and the path of a URL that may be asked."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise BadInput(f"--url {url!r}: {error}; write http://127.0.0.1:PORT/") from None
    if parts.scheme != "http" or not parts.hostname:
        raise BadInput(f"--url {url!r} is not of the form http://127.0.0.1:PORT/; only plain HTTP is asked")
    host = "127.0.0.1" if parts.hostname == "localhost" else parts.hostname
    with contextlib.suppress(ValueError):
        if ipaddress.ip_address(host).is_loopback:
            return Address(host, port or 80), (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    raise BadInput(f"--url {url!r} is not on loopback, and nothing else is asked; write http://127.0.0.1:PORT/")


# ── Sockets that listen ────────────────────────────────────────────────────

def listening(pids: Iterable[int]) -> tuple[list[Address], list[str]]:
    """Where these processes listen and may be asked, the lowest port first; and the addresses that may not be."""
    sockets = _sockets(pids)
    lines, addresses, refused = [], [], []
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            lines += Path(f"/proc/net/{table}").read_text().splitlines()[1:]
    for fields in map(str.split, lines):
        if fields[3] == _LISTENS and fields[9] in sockets:
            host, port = _address(fields[1])
            if host.is_unspecified:
                # One of IPv6 that takes all addresses takes those of IPv4 as well, unless it was made for IPv6 alone; it is asked at its own.
                addresses.append(Address("::1" if host.version == 6 else "127.0.0.1", port))
            elif host.is_loopback:
                addresses.append(Address(str(host), port))
            else:
                refused.append(f"{host}:{port}")
    return sorted(set(addresses), key=lambda a: (a.port, ":" in a.host)), sorted(set(refused))


def _sockets(pids: Iterable[int]) -> set[str]:
    """The numbers of the sockets that processes have open."""
    found = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            for name in os.listdir(f"/proc/{pid}/fd"):
                target = os.readlink(f"/proc/{pid}/fd/{name}")
                if target.startswith("socket:["):
                    found.add(target[8:-1])
    return found


def _address(text: str) -> tuple[ipaddress.IPv4Address | ipaddress.IPv6Address, int]:
    """The kernel writes each word of an address as this machine's numbers are."""
    host, port = text.split(":")
    words = b"".join(bytes.fromhex(host[at:at + 8])[::-1] for at in range(0, len(host), 8))
    return ipaddress.ip_address(words), int(port, 16)


# ── Asking ─────────────────────────────────────────────────────────────────

def answers(address: Address, path: str, headers: Iterable[str] = ()) -> bool:
    """Whether it says anything that begins like HTTP."""
    try:
        with socket.create_connection((address.host, address.port), timeout=_ANSWER_S) as connection:
            connection.sendall(request(address, path, (*headers, "Connection: close")))
            return connection.recv(5).startswith(b"HTTP")
    except OSError:
        return False


def request(address: Address, path: str, headers: Iterable[str] = ()) -> bytes:
    lines = [f"GET {path} HTTP/1.1", f"Host: {address}", "User-Agent: ashlar-try", "Accept: */*", *headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


# ── Ports ──────────────────────────────────────────────────────────────────

def taken(address: Address) -> bool:
    with socket.socket(socket.AF_INET6 if ":" in address.host else socket.AF_INET) as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do: what only waits for late packets does not count
        try:
            tried.bind((address.host, address.port))
        except OSError as error:
            return error.errno == errno.EADDRINUSE
    return False


def wait_until_free(addresses: Iterable[Address], limit_s: float = _FREE_S) -> None:
    until = time.monotonic() + limit_s
    for address in addresses:
        while taken(address):
            if time.monotonic() > until:
                raise BadInput(f"{address} is still taken {limit_s:.0f} s after the server ended; find what listens there with: ss -ltnp 'sport = {address.port}'")
            time.sleep(0.1)
