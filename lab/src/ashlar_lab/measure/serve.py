"""Drive one server: wait for its port on loopback, load it at a constant rate, note its memory, stop it."""

import math
import signal
import socket
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

from ashlar.errors import BadInput
from ashlar.memory import native
from ashlar_lab.experiment.model import PERCENTILES, SLOWER_LEAST, Server, slower

SOURCE = Path(__file__).with_name("load.c")
_FAILURES_TOLERATED = 0.01


@dataclass
class Served:
    """What the client saw. `latency_s` is one value per answered request after the warm-up, and `checksum` has a part for each path, as `same_output` reads it."""

    metrics: dict[str, float] = field(default_factory=dict)
    latency_s: list[float] = field(default_factory=list)
    checksum: str | None = None
    failure: str = ""


def choose_port(server: Server) -> int:
    """The port of the next run: a free one when the experiment says 0, else the given one, which must be free."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", server.port))
        except OSError as error:
            raise BadInput(f"port {server.port} on loopback cannot be used: {error.strerror}; stop what listens there, or give port 0 "
                           "and {port} in the command") from None
        return probe.getsockname()[1]


def drive(launcher: subprocess.Popen, server: Server, port: int, folder: Path) -> Served:
    """Measure the server that `launcher` started, and stop it."""
    failure = _wait_for_port(launcher, server, port)
    if failure:
        launcher.send_signal(signal.SIGTERM)
        return _served([], server.requests(), server.duration_s, failure)
    result = folder / "load"
    seconds = server.warm_up_s + server.duration_s
    subprocess.run([str(native.program(SOURCE)), str(port), str(server.rate_per_s), str(seconds), str(server.connections), str(result), *server.paths],
                   stdin=subprocess.DEVNULL, timeout=seconds + 30, check=True)
    launcher.send_signal(signal.SIGUSR1)  # final memory of the tree, before it is told to stop
    time.sleep(0.1)
    died = launcher.poll() is not None
    launcher.send_signal(signal.SIGTERM)
    served = read_load(result, server)
    if died:
        served.failure = "the server ended while it was being measured"
    return served


def _wait_for_port(launcher: subprocess.Popen, server: Server, port: int) -> str:
    end = time.monotonic() + server.ready_timeout_s
    while time.monotonic() < end:
        if launcher.poll() is not None:
            return "the server ended before it listened"
        with socket.socket() as probe:
            probe.settimeout(1)
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return ""
        time.sleep(0.02)
    return f"the server did not listen on port {port} within {server.ready_timeout_s:g} s"


def read_load(path: Path, server: Server) -> Served:
    """Percentiles and rate from the client's lines; the warm-up is left out. A request that failed, or that the client never
    recorded, was waited for longer than any that was answered."""
    lines = [line.split() for line in path.read_text().splitlines()]
    bodies = [words[2:] for words in lines if words[0] == "body"]
    told = [(intended_us, int(words[1])) for words in lines if words[0] != "body" and (intended_us := int(words[0])) >= server.warm_up_s * 1e6]
    answered = [(intended_us, latency_us) for intended_us, latency_us in told if latency_us >= 0]
    latencies = sorted(latency_us / 1e6 for _, latency_us in answered)
    due = max(len(told), server.requests())
    failed = due - len(latencies)
    if not latencies:
        return _served([], due, server.duration_s, f"none of {due} requests was answered with success")
    took_s = max(server.duration_s, max(map(sum, answered)) / 1e6 - server.warm_up_s)
    served = _served(latencies, due, took_s, f"{failed} of {due} requests failed" if failed > _FAILURES_TOLERATED * due else "")
    served.checksum = " ".join(digest if kind == "same" else "-" for digest, kind in bodies)
    return served


def _served(latencies: list[float], due: int, took_s: float, failure: str = "") -> Served:
    """What is known of so many requests of which these were answered; `latencies` are in order."""
    metrics = {**_percentiles(latencies, due), "requests_per_s": len(latencies) / took_s, "failed_requests": float(due - len(latencies))}
    return Served(metrics, latencies, failure=failure)


def _percentiles(latencies: list[float], due: int) -> dict[str, float]:
    """Of all requests that were due, those that have enough slower ones behind them; in order, `latencies` are of the answered ones. One that a
    request without an answer stands at is infinite: left out, it would count for less than a slow answer."""
    ranks = {name: math.ceil(share * due) for name, share in PERCENTILES.items() if slower(name, due) >= SLOWER_LEAST} | {"request_ms_max": due}
    return {name: 1000 * latencies[rank - 1] if rank <= len(latencies) else math.inf for name, rank in ranks.items()}
