"""The cluster as the lab needs it, over Dask: who is there, send a file, start work, hear what it says. Only this file knows Dask.

`tls://HOST:PORT` is a scheduler that runs already; `local:N` starts one with N workers on this machine, each taken for a
machine of its own. A worker measures one program at a time: work asks for one unit of the resource `ashlar`, and the lab declares
one unit where a worker has none. Workers on one running kernel would measure each other, so of those only the first is
taken, unless they were started with `--resources ashlar=1`.

A scheduler and its workers run what whoever reaches them sends. So all that is started here listens on loopback alone, and nothing beyond
loopback is talked to but by TLS, with certificates on both sides.
"""

from __future__ import annotations

import contextlib
import ipaddress
import logging
import queue
import re
import socket
import ssl
import subprocess
import sys
import tempfile
import warnings
import zlib
from collections.abc import Callable, Iterable
from concurrent.futures import CancelledError
from dataclasses import dataclass

from ashlar_lab.errors import BadInput, Unfinished
from ashlar_lab.measure.cluster import courier
from ashlar_lab.measure.cluster.parcel import Parcel

RESOURCE = "ashlar"
_CONNECT_S = 10
_LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Tls:
    """Files in PEM form: the authority that certificates must be of, and the client's own certificate and key. What is None is taken from
    Dask's configuration."""

    ca_file: str | None = None
    cert: str | None = None
    key: str | None = None

    def options(self) -> list[str]:
        """As on the command line."""
        return [word for name, value in (("--tls-ca-file", self.ca_file), ("--tls-cert", self.cert), ("--tls-key", self.key)) if value for word in (name, value)]


@dataclass(frozen=True)
class Worker:
    """One worker that measures. `machine` names it in the store, `kernel` is the running kernel it is on."""

    address: str
    machine: str
    kernel: str


@dataclass(frozen=True)
class Said:
    """One line of an agent: the task it belongs to, and the line."""

    task: str
    line: bytes


@dataclass(frozen=True)
class Ended:
    """A task is over. `lines` is how many lines its agent said; `problem` is empty unless it failed as a task."""

    task: str
    lines: int
    status: int
    problem: str


class Cluster:
    """A connection to a scheduler, and what it reports in `messages`. Use as a context manager."""

    def __init__(self, address: str, tls: Tls = Tls()):
        self._exit = contextlib.ExitStack()
        self.messages: queue.Queue[Said | Ended] = queue.Queue()
        self.topic = f"ashlar-{socket.gethostname()}-{id(self):x}"
        self.local, self._address = address.startswith("local:"), address
        self._futures: dict[str, object] = {}
        try:
            self._connect(address, tls)
        except BaseException:
            self._exit.close()
            raise

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(self, *_) -> None:
        with contextlib.suppress(Exception):
            self._exit.close()

    def _connect(self, address: str, tls: Tls) -> None:
        try:
            import cloudpickle
            import distributed
        except ImportError:
            raise BadInput("--on needs Dask; pip install 'ashlar-lab[cluster]'") from None
        for name in ("distributed", "distributed.client"):  # Dask gives the second a level of its own
            logging.getLogger(name).setLevel(logging.CRITICAL)
        warnings.filterwarnings("ignore", module="distributed")
        cloudpickle.register_pickle_by_value(courier)
        if self.local:
            address = self._start_local(_count(address))
        security = _security(address, tls) if _encrypts(address) else None
        try:
            self._client = self._exit.enter_context(distributed.Client(address, timeout=_CONNECT_S, set_as_default=False, name="ashlar", security=security))
        except (OSError, ValueError, TypeError, ImportError, TimeoutError) as error:
            raise BadInput(f"no Dask scheduler answers at {address} ({_first_line(error)}); start one with 'dask scheduler', or try --on local:2") from None
        self._client.subscribe_topic(self.topic, lambda event: self.messages.put(Said(event[1]["task"], event[1]["line"])))

    def _start_local(self, count: int) -> str:
        """A scheduler in this process and workers in sessions of their own, which Ctrl-C does not reach. Without a host a worker would listen
        on every interface, and so would its dashboard, which is there even where it shows nothing."""
        import distributed

        scheduler = self._exit.enter_context(distributed.LocalCluster(n_workers=0, host=_LOOPBACK, dashboard_address=None, silence_logs=logging.CRITICAL))
        folder = self._exit.enter_context(tempfile.TemporaryDirectory(prefix="ashlar-dask-"))
        host = socket.gethostname()
        for number in range(1, count + 1):
            name = host if count == 1 else f"{host}-{number}"
            worker = subprocess.Popen([sys.executable, "-m", "distributed.cli.dask_worker", scheduler.scheduler_address, "--no-nanny", "--nthreads", "1",
                                       "--host", _LOOPBACK, "--dashboard-address", f"{_LOOPBACK}:0", "--no-dashboard",
                                       "--name", name, "--resources", f"{RESOURCE}=1", "--local-directory", folder,
                                       "--death-timeout", "60"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                      start_new_session=True)
            self._exit.callback(_end, worker)
        self.expected = count
        return scheduler.scheduler_address

    expected = 1

    def alive(self) -> dict[str, tuple[str, dict]]:
        """Address → (name, resources) of every worker there is now."""
        with self._connected():
            return self._client.run_on_scheduler(courier.alive)

    @contextlib.contextmanager
    def _connected(self):
        """A scheduler that does not answer any more is one line, whatever Dask says to it."""
        try:
            yield
        except Exception as error:
            # A client that has closed itself fails in whatever it happens to look at.
            if not isinstance(error, (OSError, RuntimeError, CancelledError)) and self._client.status == "running":
                raise
            raise Unfinished(f"the scheduler at {self._address} is gone") from None

    def measuring(self, alive: dict[str, tuple[str, dict]]) -> tuple[list[Worker], dict[str, str]]:
        """Which workers measure, and why others do not."""
        facts = self.call(courier.facts, workers=list(alive))
        found: list[Worker] = []
        turned_away: dict[str, str] = {}
        kernels: dict[str, str] = {}
        here = list(sys.version_info[:2])
        for address in sorted(alive, key=lambda a: (not alive[a][1].get(RESOURCE), a)):
            name, resources = alive[address]
            fact = facts.get(address)
            if isinstance(fact, Exception) or fact is None:
                turned_away[address] = f"it cannot run the lab's first step ({_first_line(fact) if fact else 'no answer'}); has it another Python?"
            elif why := _in_the_clear(address):
                turned_away[address] = f"{why}; start the scheduler and the workers with TLS (docs/lab-machines.md)"
            elif fact["python"] != here:
                turned_away[address] = f"it has Python {'.'.join(map(str, fact['python']))}, here is {here[0]}.{here[1]}; Dask needs the same on both sides"
            elif fact["system"] != "Linux":
                turned_away[address] = f"it is {fact['system']}; the lab measures on Linux"
            elif not resources.get(RESOURCE) and fact["kernel"] in kernels:
                turned_away[address] = f"it is on the same machine as {kernels[fact['kernel']]}, and would disturb it; --resources {RESOURCE}=1 at its start insists"
            else:
                kernels.setdefault(fact["kernel"], address)
                plain = bool(name) and "://" not in name and not name.isdigit()
                alone = sum(1 for f in facts.values() if isinstance(f, dict) and f["kernel"] == fact["kernel"]) == 1
                port = address.rpartition(":")[2]
                machine = name if plain else fact["host"] if alone or not resources.get(RESOURCE) else f"{fact['host']}:{port}"
                if machine in {w.machine for w in found}:
                    machine = f"{machine}-{fact['kernel'][:6] if alone else port}"
                found.append(Worker(address, machine, fact["kernel"]))
                if not resources.get(RESOURCE):
                    self.call(courier.claim, workers=[address])
        return found, turned_away

    def call(self, function: Callable, *arguments, workers: list[str]) -> dict[str, object]:
        """Run a function on workers now, beside whatever they do; an exception is a result too."""
        if not workers:
            return {}
        with self._connected():
            return self._client.run(function, *arguments, workers=workers, on_error="return")

    def send(self, parcel: Parcel, workers: list[str], on_sent: Callable[[int, int], None]) -> dict[str, str]:
        """Bring every content to every worker that lacks it. Returns the workers that could not keep one, with the reason."""
        wanted = sorted(parcel.sources)
        lacks = self.call(courier.lacking, wanted, workers=workers)
        failed = {w: _first_line(found) for w, found in lacks.items() if isinstance(found, Exception)}
        for done, digest in enumerate(wanted):
            need = [w for w in workers if w not in failed and digest in lacks[w]]
            for number, (data, last) in enumerate(_with_end(parcel.data(digest)) if need else ()):
                for worker, kept in self.call(courier.keep, digest, number, last, zlib.compress(data, 1), workers=[w for w in need if w not in failed]).items():
                    if isinstance(kept, Exception):
                        failed[worker] = _first_line(kept)
            on_sent(done + 1, len(wanted))
        return failed

    def start(self, task: str, worker: Worker, session: str, root: str, request: str) -> None:
        """Start an agent on one worker, and no other."""
        with self._connected():
            future = self._client.submit(courier.work, session, root, task, self.topic, request, key=f"{self.topic}-{task}", workers=[worker.address],
                                         allow_other_workers=False, resources={RESOURCE: 1}, pure=False, retries=0)
        self._futures[task] = future
        future.add_done_callback(lambda done: self.messages.put(_ended(task, done)))

    def forget(self, task: str) -> None:
        """Let go of a task that is over, or whose worker is gone."""
        future = self._futures.pop(task, None)
        if future is not None:
            with contextlib.suppress(Exception):
                future.cancel() if not future.done() else future.release()


def _ended(task: str, future) -> Ended:
    if future.status == "finished":
        result = future.result()
        return Ended(task, result["lines"], result["status"], "" if result["status"] in (0, 2, 130) else _first_line(result["said"], last=True))
    if future.status == "cancelled":
        return Ended(task, 0, 130, "cancelled")
    return Ended(task, 0, 1, _first_line(future.exception()))


def _with_end(pieces: Iterable[bytes]) -> Iterable[tuple[bytes, bool]]:
    """Each piece, and whether it is the last."""
    held = None
    for piece in pieces:
        if held is not None:
            yield held, False
        held = piece
    yield held or b"", True


def _count(address: str) -> int:
    found = re.fullmatch(r"local:([1-9][0-9]{0,2})", address)
    if not found:
        raise BadInput(f"--on {address} names no number of workers; give local:2, or the address of a scheduler such as tls://host:8786")
    return int(found[1])


def _first_line(what, last: bool = False) -> str:
    lines = str(what).strip().splitlines() or [type(what).__name__]
    return (lines[-1] if last else lines[0])[:300]


def _end(process: subprocess.Popen) -> None:
    process.terminate()
    try:
        process.wait(timeout=5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def check_address(address: str, tls: Tls = Tls()) -> None:
    """Complain about what cannot be an address, or must not be used, before anything starts."""
    if address.startswith("local"):
        _count(address)
    elif not re.fullmatch(r"(tcp|tls|ws|wss|ucx)://[^/\s]+:[0-9]+/?", address):
        raise BadInput(f"--on {address} is no address; give one such as tls://host:8786 (a Dask scheduler), or local:2")
    elif why := _in_the_clear(address):
        port = address.rstrip("/").rpartition(":")[2]
        raise BadInput(f"--on {address}: {why}; give the scheduler TLS and say tls:// (docs/lab-machines.md), or come through "
                       f"ssh -L {port}:{_LOOPBACK}:{port} and say tcp://{_LOOPBACK}:{port}")
    if tls != Tls() and not _encrypts(address):
        raise BadInput(f"{tls.options()[0]} belongs to an address such as tls://host:8786, and --on {address} is not encrypted; leave it out")


def _encrypts(address: str) -> bool:
    return address.startswith(("tls://", "wss://"))


def _in_the_clear(address: str) -> str:
    """Why an address must not be used: nothing guards it. Empty where TLS does, or where it is on this machine."""
    if _encrypts(address) or address.startswith("inproc://"):
        return ""
    host = re.sub(r"^[a-z]+://", "", address).rstrip("/").rpartition(":")[0].strip("[]")
    try:
        found = {entry[4][0] for entry in socket.getaddrinfo(host, None)}
    except OSError:
        found = {host}
    if found and all(_is_loopback(a) for a in found):
        return ""
    return f"{host} is not on this machine and the connection is not encrypted, so whoever reaches it could run commands there"


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address.partition("%")[0]).is_loopback
    except ValueError:
        return False


def _security(address: str, tls: Tls):
    """Dask's own description of the connection, with certificates that can be read."""
    import distributed

    given = {"tls_ca_file": tls.ca_file, "tls_client_cert": tls.cert, "tls_client_key": tls.key}
    security = distributed.Security(require_encryption=True, **{k: v for k, v in given.items() if v})
    needed = "--on " + address + " needs --tls-ca-file, --tls-cert and --tls-key, or the same in Dask's configuration"
    try:
        if not security.tls_ca_file or not security.get_connection_args("client")["ssl_context"]:
            raise BadInput(f"{needed}: certificates of both sides, in PEM form")
    except (OSError, ssl.SSLError) as error:
        names = ", ".join(str(f) for f in (security.tls_ca_file, security.tls_client_cert, security.tls_client_key) if f)
        raise BadInput(f"{needed}; {names} cannot be used: {error.strerror or error}") from None
    return security
