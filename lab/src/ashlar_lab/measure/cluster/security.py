"""Who is talked to, and how: what is on this machine, or TLS with certificates on both sides.

A scheduler and its workers run what whoever reaches them sends.
"""

import contextlib
import ipaddress
import re
import socket
import ssl
from collections.abc import Mapping
from urllib.parse import urlsplit

import distributed

from ashlar.errors import BadInput


# The options that name files in PEM form, and what Dask calls them: the authority that certificates must be of, and the client's own
# certificate and key.
_NAMES_IN_DASK = {"--tls-ca-file": "tls_ca_file", "--tls-cert": "tls_client_cert", "--tls-key": "tls_client_key"}


def check_address(address: str, tls: Mapping[str, str] = {}) -> None:
    """Complain about what cannot be an address, or must not be used, before anything starts. `tls` has the files that options name."""
    if address.startswith("local"):
        local_count(address)
    elif not re.fullmatch(r"(tcp|tls|ws|wss|ucx)://[^/\s]+:[0-9]+/?", address):
        raise BadInput(f"--on {address} is no address; give one such as tls://host:8786 (a Dask scheduler), or local:2")
    elif why := in_the_clear(address):
        port = address.rstrip("/").rpartition(":")[2]
        raise BadInput(f"--on {address}: {why}; give the scheduler TLS and say tls:// (docs/design/lab-machines.md), or come through "
                       f"ssh -L {port}:127.0.0.1:{port} and say tcp://127.0.0.1:{port}")
    if tls and not encrypts(address):
        raise BadInput(f"{next(iter(tls))} belongs to an address such as tls://host:8786, and --on {address} is not encrypted; leave it out")


def local_count(address: str) -> int:
    """How many workers `local:N` asks for."""
    found = re.fullmatch(r"local:([1-9][0-9]{0,2})", address)
    if not found:
        raise BadInput(f"--on {address} names no number of workers; give local:2, or the address of a scheduler such as tls://host:8786")
    return int(found[1])


def encrypts(address: str) -> bool:
    return address.startswith(("tls://", "wss://"))


def in_the_clear(address: str) -> str:
    """Why an address must not be used: nothing guards it. Empty where TLS does, or where it is on this machine."""
    if encrypts(address) or address.startswith("inproc://"):
        return ""
    host = urlsplit(address).hostname
    found = []
    with contextlib.suppress(OSError):  # a name that nobody knows is not this machine's
        found = [ipaddress.ip_address(entry[4][0]) for entry in socket.getaddrinfo(host, None)]
    if found and all(a.is_loopback for a in found):
        return ""
    return f"{host} is not on this machine and the connection is not encrypted, so whoever reaches it could run commands there"


def security_of(address: str, tls: Mapping[str, str]):
    """Dask's own description of the connection, with certificates that can be read; None where it is not encrypted. Files that no option
    names are taken from Dask's configuration."""
    if not encrypts(address):
        return None
    security = distributed.Security(require_encryption=True, **{_NAMES_IN_DASK[option]: file for option, file in tls.items()})
    needed = "--on " + address + " needs --tls-ca-file, --tls-cert and --tls-key, or the same in Dask's configuration"
    try:
        if not security.tls_ca_file or not security.get_connection_args("client")["ssl_context"]:
            raise BadInput(f"{needed}: certificates of both sides, in PEM form")
    except (OSError, ssl.SSLError) as error:
        names = ", ".join(str(f) for f in (security.tls_ca_file, security.tls_client_cert, security.tls_client_key) if f)
        raise BadInput(f"{needed}; {names} cannot be used: {error.strerror or error}") from None
    return security
