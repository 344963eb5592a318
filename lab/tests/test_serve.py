"""Servers: open-loop latency, memory of the tree, and every way of not serving."""

import json
from pathlib import Path

import pytest
from conftest import PYTHON

from ashlar_lab.experiment.model import Server
from ashlar_lab.measure.serve import read_load
from ashlar_lab.store.database import read_all

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
    assert runs["stalls"].metrics["p100_ms"] >= 550
    assert runs["stalls"].metrics["p90_ms"] > 150


def test_a_server_run_has_rate_percentiles_peak_and_final_memory(ashlar, tmp_path):
    metrics = run(ashlar, tmp_path, ("calm", 0, "x"))["calm"].metrics
    assert metrics["requests_per_s"] == pytest.approx(100, rel=0.15)
    assert metrics["p50_ms"] <= metrics["p90_ms"] <= metrics["p99_ms"] <= metrics["p999_ms"] <= metrics["p100_ms"]
    assert 2 < metrics["final_mib"] <= metrics["peak_mib"] * 1.05
    assert "latency by percentile" in (tmp_path / "e.html").read_text()


def test_other_answers_are_wrong_answers(ashlar, tmp_path):
    runs = run(ashlar, tmp_path, ("right", 0, "x"), ("wrong", 0, "y"))
    assert sorted(r.state for r in runs.values()) in (["ok", "wrong output"], ["ok", "ok"])
    again = read_all([tmp_path / "e.ashlar"])[2]
    assert len({r.checksum for r in again}) == 2


@pytest.mark.parametrize(("answer", "reason"), [("broken", "was answered with success"), ("die", "ended while it was being measured")])
def test_a_server_that_fails_is_recorded_with_the_reason(ashlar, tmp_path, answer, reason):
    runs = run(ashlar, tmp_path, ("good", 0, "x"), ("bad", 0, answer))
    assert runs["bad"].state == "crashed" and (reason in runs["bad"].reason or "requests failed" in runs["bad"].reason)


@pytest.mark.parametrize(("code", "reason"), [("import time; time.sleep(60)", "did not listen on port"), ("raise SystemExit(3)", "ended before it listened")])
def test_a_server_that_never_listens_is_recorded(ashlar, tmp_path, code, reason):
    runs = run(ashlar, tmp_path, ("mute", 0, "x"), code=code, ready_timeout_s=0.7)
    assert runs["mute"].state == "crashed" and reason in runs["mute"].reason


def test_a_taken_port_is_bad_input(ashlar, tmp_path):
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = ashlar("compare", "-e", experiment(tmp_path, ("a", 0, "x"), port=port))
    assert done.returncode == 2 and f"port {port} on loopback cannot be used" in done.stderr


def test_percentiles_leave_the_warm_up_out_and_count_failures(tmp_path):
    lines = [f"{i * 10000} {1000 * (i + 1)}" for i in range(100)] + ["1000000 -1", "body 0 abc same"]
    (tmp_path / "load").write_text("\n".join(lines) + "\n")
    served = read_load(tmp_path / "load", Server(port=1, rate_per_s=100, duration_s=0.5, warm_up_s=0.5))
    assert len(served.latency_s) == 50 and served.metrics["p50_ms"] == pytest.approx(75) and served.metrics["p100_ms"] == pytest.approx(100)
    assert served.metrics["failed_requests"] == 1 and "1 of 51 requests failed" in served.failure
