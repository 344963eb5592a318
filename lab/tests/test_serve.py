"""Servers: open-loop latency, memory of the tree, and every way of not serving."""

import json
import math
from pathlib import Path

import pytest
from conftest import PYTHON

from ashlar_lab.experiment.model import Server
from ashlar_lab.measure.serve import read_load
from ashlar_lab.store.database import read_all
from ashlar_lab.store.run import same_output

SERVER = """
import http.server, os, sys, time
port, stall_at, answer = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
count = 0
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        global count
        count += 1
        if count == stall_at: time.sleep(0.6)
        if answer == "die" and count == 20: os._exit(1)
        body = (answer + self.path).encode()
        self.send_response(500 if answer == "broken" else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_): pass
http.server.HTTPServer(("127.0.0.1", port), Handler).serve_forever()
"""


def experiment(tmp_path: Path, *variants: tuple[str, int, str], code: str = SERVER, **server) -> str:
    (tmp_path / "server.py").write_text(code)
    options = {"port": 0, "rate_per_s": 100, "duration_s": 1.5, "warm_up_s": 0.2, "connections": 8, "paths": ["/a", "/b"]} | server
    inline = ", ".join(f"{k} = {json.dumps(v)}" for k, v in options.items())
    text = f"""[experiment]\nname = "e"\nblocks = 1\ncheck = false\n[[program]]\nname = "web"\nserver = {{ {inline} }}\n
command = ["{PYTHON}", "-S", "server.py", "{{port}}", "{{stall}}", "{{answer}}"]\n"""
    for name, stall, answer in variants:
        text += f'[[variant]]\nname = "{name}"\nsettings = {{ stall = {stall}, answer = "{answer}" }}\n'
    path = tmp_path / "e.toml"
    path.write_text(text)
    return str(path)


def run(ashlar, tmp_path, *variants, **options):
    done = ashlar("compare", "-e", experiment(tmp_path, *variants, **options), "--form", "json,html", "-q")
    assert done.returncode == 0, done.stderr
    return {r.variant: r for r in read_all([tmp_path / "e.ashlar"])[2] if r.role == "main"}


def test_a_stall_is_charged_to_every_request_that_had_to_wait(ashlar, tmp_path):
    """A closed-loop client would see one slow request of 170; sixty were due while the server slept."""
    runs = run(ashlar, tmp_path, ("calm", 0, "x"), ("stalls", 60, "x"))
    assert runs["calm"].state == runs["stalls"].state == "ok"
    slow = [s for s in runs["stalls"].latency_s if s > 0.1]
    assert len(slow) >= 30
    assert runs["stalls"].metrics["request_ms_max"] >= 550 and "p99_ms" not in runs["stalls"].metrics
    assert sorted(runs["stalls"].latency_s)[-20] > 0.1


def test_a_server_run_has_rate_percentiles_peak_and_final_memory(ashlar, tmp_path):
    # Long enough for the last answer to come late on a busy machine.
    metrics = run(ashlar, tmp_path, ("calm", 0, "x"), duration_s=6)["calm"].metrics
    assert metrics["requests_per_s"] == pytest.approx(100, rel=0.15)
    assert 0 < metrics["p50_ms"] <= metrics["p90_ms"] <= metrics["request_ms_max"] and "p99_ms" not in metrics
    assert 2 < metrics["final_mib"] <= metrics["peak_mib"] * 1.05
    assert "latency by percentile" in (tmp_path / "e.html").read_text()


def test_other_answers_are_wrong_answers(ashlar, tmp_path):
    runs = run(ashlar, tmp_path, ("right", 0, "x"), ("wrong", 0, "y"))
    assert sorted(r.state for r in runs.values()) in (["ok", "wrong output"], ["ok", "ok"])
    again = read_all([tmp_path / "e.ashlar"])[2]
    assert len({r.checksum for r in again}) == 2


def test_each_path_is_compared_by_itself(ashlar, tmp_path):
    """Of `/time` the answers vary, and one request gets an error page: `/a` is compared all the same."""
    code = SERVER.replace("body = (answer + self.path)", "body = (answer + self.path + (str(count) if self.path == '/time' or count == 9 else ''))").replace('answer == "broken"', "count == 9")
    runs = run(ashlar, tmp_path, ("right", 0, "x"), ("wrong", 0, "y"), code=code, paths=["/a", "/time"])
    (twin,) = (r for r in read_all([tmp_path / "e.ashlar"])[2] if r.role == "twin")
    assert twin.metrics["failed_requests"] <= 1 and twin.checksum.split()[1] == "-"
    assert same_output(runs["right"].checksum, twin.checksum) and not same_output(runs["right"].checksum, runs["wrong"].checksum)


def test_what_cannot_be_compared_is_left_out():
    for other, same in (("ab cd", True), ("ab -", True), ("- -", True), ("ab ce", False), ("- ce", False), ("0123456789", True)):
        assert same_output("ab cd", other) == same_output(other, "ab cd") == same


@pytest.mark.parametrize(("answer", "reason"), [("broken", "was answered with success"), ("die", "ended while it was being measured")])
def test_a_server_that_fails_is_recorded_with_the_reason(ashlar, tmp_path, answer, reason):
    runs = run(ashlar, tmp_path, ("good", 0, "x"), ("bad", 0, answer))
    assert runs["bad"].state == "crashed" and (reason in runs["bad"].reason or "requests failed" in runs["bad"].reason)
    assert runs["bad"].metrics["p90_ms" if "p90_ms" in runs["good"].metrics else "p50_ms"] == math.inf and runs["bad"].metrics["failed_requests"] > 100


@pytest.mark.parametrize(("code", "reason"), [("import time; time.sleep(60)", "did not listen on port"), ("raise SystemExit(3)", "ended before it listened")])
def test_a_server_that_never_listens_is_recorded(ashlar, tmp_path, code, reason):
    runs = run(ashlar, tmp_path, ("mute", 0, "x"), code=code, ready_timeout_s=0.7)
    assert runs["mute"].state == "crashed" and reason in runs["mute"].reason
    assert (runs["mute"].metrics["p50_ms"], runs["mute"].metrics["failed_requests"], runs["mute"].metrics["requests_per_s"]) == (math.inf, 150, 0)


def test_a_taken_port_is_bad_input(ashlar, tmp_path):
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = ashlar("compare", "-e", experiment(tmp_path, ("a", 0, "x"), port=port))
    assert done.returncode == 2 and f"port {port} on loopback cannot be used" in done.stderr


def loaded(tmp_path, latencies_ms, warm_up_s: float = 0.0, unrecorded: int = 0):
    """What is read of requests that were due every 10 ms; -1 failed, and the last ones were never recorded."""
    lines = [f"{i * 10000} {1000 * ms if ms >= 0 else -1}" for i, ms in enumerate(latencies_ms)]
    (tmp_path / "load").write_text("\n".join([*lines, "body 0 abc same"]) + "\n")
    seconds = (len(latencies_ms) + unrecorded) / 100
    return read_load(tmp_path / "load", Server(port=1, rate_per_s=100, duration_s=seconds - warm_up_s, warm_up_s=warm_up_s))


def test_percentiles_leave_the_warm_up_out_and_failures_are_counted(tmp_path):
    served = loaded(tmp_path, [*range(1, 101), -1], warm_up_s=0.5)
    assert len(served.latency_s) == 50 and served.metrics["p50_ms"] == pytest.approx(76), "the 26th of 51"
    assert served.metrics["failed_requests"] == 1 and "1 of 51 requests failed" in served.failure
    assert served.metrics["request_ms_max"] == math.inf, "the longest was not answered"


def test_a_request_that_failed_was_longer_than_all_others_and_so_was_one_that_nobody_recorded(tmp_path):
    """Of 2000 requests of 1 to 2000 ms the 1800th is p90; the slow ones failing must not make it faster."""
    whole = loaded(tmp_path, range(1, 2001)).metrics
    assert (whole["p90_ms"], whole["p99_ms"], whole["request_ms_max"]) == pytest.approx((1800, 1980, 2000))
    for served in (loaded(tmp_path, [*range(1, 1991), *[-1] * 10]), loaded(tmp_path, range(1, 1991), unrecorded=10)):
        assert served.metrics["p90_ms"] == pytest.approx(1800) and served.metrics["p99_ms"] == pytest.approx(1980)
        assert served.metrics["failed_requests"] == 10
        assert served.metrics["request_ms_max"] == math.inf
    failing = loaded(tmp_path, [*range(1, 1971), *[-1] * 30]).metrics
    assert failing["p99_ms"] == math.inf and failing["p90_ms"] == pytest.approx(1800), "p99 is a request that was never answered"


@pytest.mark.parametrize(("requests", "given"), [(39, []), (40, ["p50_ms"]), (199, ["p50_ms"]), (200, ["p50_ms", "p90_ms"]), (1999, ["p50_ms", "p90_ms"]),
                                                 (2000, ["p50_ms", "p90_ms", "p99_ms"]), (20000, ["p50_ms", "p90_ms", "p99_ms", "p999_ms"])])
def test_a_percentile_rests_on_twenty_slower_requests(tmp_path, requests, given):
    assert [name for name in loaded(tmp_path, range(1, requests + 1)).metrics if name.startswith("p")] == given
