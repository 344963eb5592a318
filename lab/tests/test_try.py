"""`ashlar try`: both Rubies are asked the same, nothing is left running, and no difference is claimed that chance could make.

The Rubies of most tests are scripts that answer as Ruby does and then are Python; the applications are small Python servers and programs.
"""

import asyncio
import json
import math
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import CLONE, PYTHON

from ashlar.errors import BadInput
from ashlar.processes import descendants
from ashlar.trying import collector, compare, launch, report, requests, rubies, server
from ashlar.trying import run as one_run
from ashlar.trying.compare import Figure
from ashlar.trying.interrupts import Interrupts
from ashlar.trying.process import Process
from ashlar.trying.requests import Answered
from ashlar.trying.run import Run
from ashlar.trying.watch import Sample, Seen

MIB = 1 << 20
# A server that holds SPARE_MIB more memory on stock, which has no GEM_PATH of ours.
APP = """
import http.server, os, sys, time
open("pids", "a").write(f"{os.getpid()}\\n")
held = bytearray(os.urandom(1 << 20) * (20 if os.environ.get("GEM_PATH") == "/fake/gems" else 20 + int(os.environ.get("SPARE_MIB", "0"))))
class Answers(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 65536
    def do_GET(self):
        time.sleep(float(os.environ.get("SLOW_S", "0")))
        status = 500 if self.path == "/broken" else 404 if self.path == "/missing" else 200
        self.send_response(status)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")
    def log_message(self, *a): pass
class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 64
Server((os.environ.get("HOST", "127.0.0.1"), int(sys.argv[1])), Answers).serve_forever()
"""


def fake_ruby(folder: Path, collector: str, version: str = "3.4.5", **more: str) -> Path:
    """A Ruby that is asked, and then is Python."""
    told = {"engine": "ruby", "program": PYTHON, "version": version, "description": f"ruby {version} fake", "abi": version[:3] + ".0",
            "collector": collector, "shared": "no",
            "extensions": "3.4.0-static", "platform": "x86_64-linux", "programs": str(folder), "gems": "/fake/gems" if collector == "default" else "/other/gems", **more}
    lines = "".join(f"ashlar-try {name} {value}\n" for name, value in told.items())
    folder.mkdir(parents=True)
    path = folder / "ruby"
    path.write_text(f"#!/bin/sh\nif [ \"$1\" = -e ]; then cat <<'END'\n{lines}END\nexit; fi\nexec {PYTHON} \"$@\"\n")
    path.chmod(0o755)
    return path


@pytest.fixture(autouse=True, scope="module")
def terminal():
    """What is started has the signals of a terminal, also where these tests run under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture
def attempt(tmp_path):
    """Run `ashlar try` with two fake Rubies, in a folder with app.py."""
    stock, inside = fake_ruby(tmp_path / "stock", "default"), fake_ruby(tmp_path / "inside", "ashlar")
    (tmp_path / "app.py").write_text(APP)

    def run(*arguments, stock=stock, inside=inside, timeout=120, **environment):
        named = [*(["--stock", stock] if stock else []), *(["--ashlar", inside] if inside else [])]
        return subprocess.run([sys.executable, "-m", "ashlar", "try", *map(str, (*named, *arguments))], cwd=tmp_path, capture_output=True, text=True,
                              timeout=timeout, env={**os.environ, **environment})
    return run


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


SHORT = ("--seconds", "1.5", "--warm-up", "0.3", "--rate", "40")


# ── Servers ────────────────────────────────────────────────────────────────

def test_a_server_is_found_asked_on_both_and_compared(attempt, tmp_path):
    done = attempt("--get", "/", "--get", "/a?b=1", *SHORT, "--form", "terminal,html,json", "--", "ruby", "app.py", free_port(), SPARE_MIB="30")
    assert done.returncode == 0, done.stderr
    assert "With Ashlar, in one run each: memory " in done.stdout and "memory over time" in done.stdout and "One run each" in done.stdout and "less memory" not in done.stdout
    told = json.loads((tmp_path / "ashlar-try.json").read_text())
    memory = told["figures"]["memory"]
    assert memory["stock"][0] - memory["ashlar"][0] == pytest.approx(30 * MIB, rel=0.1) and memory["differs"] is None and memory["ratio"] < 1
    assert [run["statuses"] for run in told["runs"]] == [{"200": 60}, {"200": 60}]
    assert told["figures"]["cpu_s"]["stock"][0] > 0 and "p99_s" not in told["figures"] and told["figures"]["p50_s"]["stock"][0] < 0.5
    page = (tmp_path / "ashlar-try.html").read_text()
    assert page.count("<svg") >= 2 and "seconds since start" in page and "in one run each: memory" in page and "http://" not in page.replace("http://www.w3.org", "")
    assert not [pid for pid in (tmp_path / "pids").read_text().split() if alive(int(pid))]


def test_the_same_on_both_is_no_difference(attempt, tmp_path):
    done = attempt("--rounds", "2", "--get", "/", *SHORT, "--form", "terminal,json", "--", "ruby", "app.py", free_port())
    assert done.returncode == 0, done.stderr
    assert "No difference larger than runs of the same Ruby differ by: memory" in done.stdout
    told = json.loads((tmp_path / "ashlar-try.json").read_text())
    assert [(run["side"], run["round"]) for run in told["runs"]] == [("stock", 1), ("ashlar", 1), ("ashlar", 2), ("stock", 2)]


def test_a_failure_in_a_late_round_keeps_the_rounds_before(attempt, tmp_path):
    (tmp_path / "fifth.py").write_text("import os\nopen('starts', 'a').write('x')\nif os.path.getsize('starts') == 5: raise SystemExit('no database here')\n" + APP)
    done = attempt("--rounds", "3", "--get", "/", *SHORT, "--form", "terminal,json", "--", "ruby", "fifth.py", free_port(), SPARE_MIB="30")
    assert done.returncode == 1 and "less memory" in done.stdout, done.stderr
    assert "not all rounds were run: the command on stock ended with status 1 before it answered; the last line of its output: no database here" in done.stdout
    assert len(json.loads((tmp_path / "ashlar-try.json").read_text())["runs"]) == 4


def test_requests_that_fail_are_counted_and_said(attempt, tmp_path):
    done = attempt("--get", "/", "--get", "/broken", "--get", "/missing", *SHORT, "--form", "terminal,json", "--", "ruby", "app.py", free_port())
    assert "20 of 60 requests failed on stock (status 500: 20)" in done.stdout and "20 of 60 answers had status 404" in done.stdout
    assert json.loads((tmp_path / "ashlar-try.json").read_text())["runs"][0]["latencies_s"].count(None) == 20


def test_a_rate_is_chosen_that_the_server_can_take(attempt):
    done = attempt("--get", "/", "--seconds", "1", "--warm-up", "0", "--form", "terminal", "--", "ruby", "app.py", free_port(), SLOW_S="0.05")
    rate = float(done.stdout.split(" requests a second")[0].split()[-1])
    assert 4 <= rate <= 8, done.stdout


def test_without_paths_a_server_is_watched(attempt):
    done = attempt("--seconds", "1", "--form", "terminal", "--", "ruby", "app.py", free_port())
    assert done.returncode == 0 and "p50" not in done.stdout and "memory, settled" in done.stdout, done.stderr


def test_a_server_that_ends_first_is_one_line_with_its_reason(attempt, tmp_path):
    (tmp_path / "dies.py").write_text("raise SystemExit('no database here')")
    done = attempt("--get", "/", "--", "ruby", "dies.py")
    assert done.returncode == 2 and done.stderr.strip().splitlines()[-1] == "ashlar: the command on stock ended with status 1 before it answered; the last line of its output: no database here"


BACKGROUND = "ruby app.py {0} & until ruby -c 'import socket; socket.create_connection((\"127.0.0.1\", {0}))'; do sleep 0.1; done 2> /dev/null; sleep 0.5"


def test_a_server_that_goes_into_the_background_is_refused(attempt, tmp_path):
    for asking in (("--get", "/", "--seconds", "600", "--warm-up", "0"), (), ("--seconds", "600")):
        done = attempt(*asking, "--", "sh", "-c", BACKGROUND.format(free_port()), timeout=60)
        assert done.returncode == 2 and "the command on stock went into the background; have it stay in the foreground" in done.stderr, done.stderr
        assert (", or, if it is a program that ends, give --seconds 0" in done.stderr) == ("--get" not in asking), done.stderr
    assert not left_over(tmp_path)


def test_what_ends_a_moment_after_its_program_is_no_server(tmp_path, monkeypatch):
    looks = [[server.Address("127.0.0.1", 9)]]
    monkeypatch.setattr(server, "listening", lambda _: (looks.pop() if looks else [], []))
    monkeypatch.setattr(one_run, "SOON_S", 60)
    monkeypatch.setattr(launch, "prepare", lambda *_: launch.Launch(("true",), dict(os.environ)))
    found = one_run.carry_out(one_run.Plan(["true"], seconds=600), "stock", 1, None, None, Interrupts(), lambda *_: None)
    assert found.status == 0 and not looks and not found.warnings


def test_what_a_program_leaves_behind_is_ended_and_said(attempt, tmp_path):
    for command in (BACKGROUND.format(free_port()), "sleep 300 & ruby -c 'import time; time.sleep(0.5)'"):
        done = attempt("--seconds", "0", "--form", "terminal", "--", "sh", "-c", command, timeout=60)
        assert done.returncode == 0 and "on ashlar the command ended and left 1 process behind, which had to be ended" in done.stdout, done.stdout + done.stderr
    assert not left_over(tmp_path)


def test_a_port_that_is_taken_and_a_server_elsewhere(attempt):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        done = attempt("--url", f"http://127.0.0.1:{port}/", "--", "ruby", "app.py", port)
        assert done.returncode == 2 and f"127.0.0.1:{port} is taken" in done.stderr
    done = attempt("--url", f"http://127.0.0.1:{free_port()}/", "--ready", "1.5", "--", "ruby", "app.py", port)
    assert done.returncode == 2 and "does not listen at" in done.stderr and f"but at 127.0.0.1:{port}" in done.stderr


# ── Programs that end ──────────────────────────────────────────────────────

PROGRAM = "import os, sys, time; x = os.urandom(1 << 20) * 40; y = sum(i * i for i in range(2_000_000)); time.sleep(0.2); print(y)"


def test_a_program_is_run_to_its_end(attempt, tmp_path):
    done = attempt("--form", "terminal,json", "--output", "out", "--", "ruby", "-c", PROGRAM)
    assert done.returncode == 0 and "run to its end" in done.stdout and "time until it ended" in done.stdout, done.stderr
    told = json.loads((tmp_path / "out.json").read_text())
    assert told["figures"]["peak_memory"]["ashlar"][0] > 40 * MIB and told["figures"]["wall_s"]["stock"][0] > 0.2 and told["figures"]["cpu_s"]["stock"][0] > 0.02
    assert "other text" not in done.stdout


def test_a_program_that_fails_or_prints_other_text_is_told(attempt):
    done = attempt("--form", "terminal", "--", "ruby", "-c",
                   f"{PROGRAM}; print(os.environ.get('GEM_PATH')); sys.exit('broken' if os.environ.get('GEM_PATH') == '/fake/gems' else 0)")
    assert done.returncode == 1 and "on ashlar the command ended with status 1; the last line of its output: broken" in done.stdout and "other text on Ashlar" in done.stdout
    assert "No difference" not in done.stdout and "they are not compared" in done.stdout


def test_what_ran_instead_of_the_ruby_is_named(attempt):
    done = attempt("--form", "terminal", "--", "sh", "-c", "sleep 0.4; true")
    assert f"did not run {PYTHON}" in done.stdout


# ── Nothing is left ────────────────────────────────────────────────────────

STUBBORN = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"], start_new_session=True)
if os.fork():
    open("pids", "a").write(f"{os.getpid()} {child.pid}\\n")
    time.sleep(600)
time.sleep(600)
"""


def test_what_ignores_the_signal_and_leaves_the_session_is_ended(attempt, tmp_path):
    (tmp_path / "stubborn.py").write_text(STUBBORN)
    done = attempt("--only", "stock", "--seconds", "1", "--grace", "0.3", "--form", "terminal", "--", "ruby", "stubborn.py", inside=None)
    assert done.returncode == 0, done.stderr
    assert not [pid for pid in (tmp_path / "pids").read_text().split() if alive(int(pid))]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_ctrl_c_keeps_what_was_measured(attempt, tmp_path, number):
    (tmp_path / "stubborn.py").write_text(STUBBORN)
    running = subprocess.Popen([sys.executable, "-m", "ashlar", "try", "--stock", tmp_path / "stock/ruby", "--ashlar", tmp_path / "inside/ruby",
                                "--seconds", "2", "--grace", "0.3", "--form", "terminal", "--", "ruby", "stubborn.py"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 30
    while time.monotonic() < until and not ((tmp_path / "pids").exists() and len((tmp_path / "pids").read_text().splitlines()) == 2):
        time.sleep(0.05)
    time.sleep(0.5)
    running.send_signal(number)
    out, errors = running.communicate(timeout=30)
    assert running.returncode == 130 and "interrupted: the last run, on ashlar" in out and "memory, settled" in out, errors
    assert "With Ashlar" not in out and "No difference" not in out
    assert not [pid for pid in (tmp_path / "pids").read_text().split() if alive(int(pid))]


DEAF = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, lambda *_: open("told", "w").close())
child = subprocess.Popen([sys.executable, "-c", "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"], start_new_session=True)
open("pids", "a").write(f"{os.getpid()} {child.pid}\\n")
while True: time.sleep(600)
"""


def wait_for(file: Path) -> None:
    until = time.monotonic() + 60
    while time.monotonic() < until and not (file.exists() and (file.name == "told" or file.read_text().endswith("\n"))):
        time.sleep(0.05)


def begun(tmp_path, *arguments, **more) -> subprocess.Popen:
    """`ashlar try` that goes on; the command has begun, and has written its numbers into the file `pids`."""
    (tmp_path / "deaf.py").write_text(DEAF)
    running = subprocess.Popen([sys.executable, "-m", "ashlar", "try", "--stock", tmp_path / "stock/ruby", "--ashlar", tmp_path / "inside/ruby",
                                "--form", "terminal", *map(str, arguments)], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)
    wait_for(tmp_path / "pids")
    return running


def send_together(running: subprocess.Popen, *numbers: int) -> None:
    """However busy the machine is, they all come before anything is done about the first."""
    for number in (signal.SIGSTOP, *numbers, signal.SIGCONT):
        running.send_signal(number)


def left_over(tmp_path) -> list[str]:
    return [pid for pid in (tmp_path / "pids").read_text().split() if alive(int(pid))]


def test_ctrl_c_again_and_again_ends_all_at_once_and_keeps_what_was_measured(attempt, tmp_path):
    running = begun(tmp_path, "--only", "stock", "--grace", "300", "--", "ruby", "deaf.py")
    time.sleep(1)
    running.send_signal(signal.SIGINT)
    wait_for(tmp_path / "told")
    send_together(running, signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    out, errors = running.communicate(timeout=60)
    assert running.returncode == 130 and "interrupted: the last run, on stock" in out and "memory, settled" in out, errors
    assert not left_over(tmp_path)


def test_ctrl_c_ends_the_asking_of_a_server(attempt, tmp_path):
    running = begun(tmp_path, "--only", "stock", "--get", "/", "--warm-up", "0", "--rate", "40", "--seconds", "3600", "--", "ruby", "app.py", free_port())
    assert "stock is asked\n" in iter(running.stderr.readline, "")
    time.sleep(3)
    running.send_signal(signal.SIGINT)
    out, errors = running.communicate(timeout=60)
    assert running.returncode == 130 and "memory, settled" in out and "Traceback" not in errors, errors
    assert not left_over(tmp_path)


def test_ctrl_c_before_anything_was_measured_shows_nothing(attempt, tmp_path):
    running = begun(tmp_path, "--form", "terminal,html", "--get", "/", "--warm-up", "3600", "--rate", "40", "--", "ruby", "app.py", free_port())
    assert "stock warms up\n" in iter(running.stderr.readline, "")
    time.sleep(1)
    running.send_signal(signal.SIGINT)
    out, errors = running.communicate(timeout=60)
    assert (running.returncode, out) == (130, "") and errors.endswith("ashlar: interrupted\n") and not (tmp_path / "ashlar-try.html").exists()
    assert not left_over(tmp_path)


def test_ctrl_c_while_a_run_is_ended_leaves_it_whole(attempt, tmp_path):
    running = begun(tmp_path, "--seconds", "1", "--grace", "300", "--", "ruby", "deaf.py")
    wait_for(tmp_path / "told")
    send_together(running, signal.SIGINT, signal.SIGTERM)
    out, errors = running.communicate(timeout=60)
    assert running.returncode == 130 and "interrupted: each of these runs is whole" in out and "CPU time" in out, (out, errors)
    assert not left_over(tmp_path)


IMPATIENT = """
import os, signal
from ashlar import cli
from ashlar.trying import report
make = report.table
def table(found):
    for number in (signal.SIGINT, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(os.getpid(), number)
    return make(found)
report.table = table
cli.main()
"""


def test_ctrl_c_while_it_is_shown_is_too_late_to_lose_anything(attempt, tmp_path):
    """The table is made twice, for the terminal and for the page."""
    done = subprocess.run([sys.executable, "-c", IMPATIENT, "try", "--stock", tmp_path / "stock/ruby", "--ashlar", tmp_path / "inside/ruby",
                           "--", "ruby", "-c", PROGRAM], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 130 and "time until it ended" in done.stdout and "wrote ashlar-try.html" in done.stdout, (done.stdout, done.stderr)
    assert (tmp_path / "ashlar-try.html").read_text().endswith("</html>\n")


def test_a_terminal_that_is_closed_leaves_the_page(attempt, tmp_path):
    (tmp_path / "deaf.py").write_text(DEAF)
    ours, theirs = os.openpty()
    running = subprocess.Popen([sys.executable, "-m", "ashlar", "try", "--stock", tmp_path / "stock/ruby", "--only", "stock", "--grace", "0.3",
                                "--seconds", "600", "--", "ruby", "deaf.py"], cwd=tmp_path, stdout=theirs, stderr=theirs)
    os.close(theirs)
    wait_for(tmp_path / "pids")
    time.sleep(1)
    os.close(ours)
    send_together(running, signal.SIGHUP, signal.SIGTERM)
    running.wait(timeout=60)
    assert (tmp_path / "ashlar-try.html").read_text().endswith("</html>\n") and not left_over(tmp_path)


def test_what_takes_too_long_to_show_can_be_ended():
    with Interrupts() as interrupts:
        interrupts.raised_after(3600)
        signal.raise_signal(signal.SIGTERM)
        interrupts.raised_after(0)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert interrupts.count == 2


@pytest.mark.parametrize("paths", [[], ["/"]])
def test_ctrl_c_as_the_command_ends_forgets_no_end(tmp_path, monkeypatch, paths):
    """It comes between the kernel's word that a process has ended and the note of it."""
    ask = os.wait4

    def interrupted(*arguments):
        found = ask(*arguments)
        if found[0]:
            signal.raise_signal(signal.SIGINT)
        return found

    monkeypatch.setattr(os, "wait4", interrupted)
    monkeypatch.setattr(launch, "prepare", lambda *_: launch.Launch(("sleep", "0.1"), dict(os.environ)))
    began, noted = time.monotonic(), []
    end = Process.end
    monkeypatch.setattr(Process, "end", lambda self, *arguments: (noted.append(self.status), end(self, *arguments)))
    with Interrupts() as interrupts:
        try:
            one_run.carry_out(one_run.Plan(["sleep"], paths=paths), "stock", 1, None, None, interrupts, lambda *_: None)
        except BadInput as error:
            assert paths and "ended with status 0 before it answered" in str(error)
    assert interrupts.count and noted == [0] and time.monotonic() - began < 10


def test_an_error_just_after_the_start_ends_what_was_started(tmp_path, monkeypatch):
    def no_thread(_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(one_run, "Watcher", no_thread)
    monkeypatch.setattr(launch, "prepare", lambda *_: launch.Launch(("sleep", "300"), dict(os.environ)))
    with pytest.raises(RuntimeError):
        one_run.carry_out(one_run.Plan(["sleep"], grace_s=1), "stock", 1, None, None, Interrupts(), lambda *_: None)
    assert not list(descendants(os.getpid()))


def test_a_command_that_heeds_a_signal_is_not_waited_for_because_of_what_it_leaves(tmp_path):
    one = Process(launch.Launch(("sh", "-c", "trap 'exit 0' TERM; sleep 300 & echo; wait"), dict(os.environ)), tmp_path / "out")
    wait_for(tmp_path / "out")
    began = time.monotonic()
    one.end(60)
    assert not one.pids() and time.monotonic() - began < 30


def test_nohup_holds_when_the_terminal_is_closed(attempt, tmp_path):
    running = begun(tmp_path, "--only", "stock", "--seconds", "2", "--", "ruby", "app.py", free_port(),
                    preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    running.send_signal(signal.SIGHUP)
    out, errors = running.communicate(timeout=60)
    assert running.returncode == 0 and "interrupted" not in out, (out, errors)


def test_a_killed_ashlar_takes_the_command_with_it(attempt, tmp_path):
    running = subprocess.Popen([sys.executable, "-m", "ashlar", "try", "--stock", tmp_path / "stock/ruby", "--only", "stock", "--", "ruby", "app.py",
                                str(free_port())], cwd=tmp_path,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until = time.monotonic() + 30
    while time.monotonic() < until and not (tmp_path / "pids").exists():
        time.sleep(0.05)
    running.kill()
    running.wait()
    (pid,) = (tmp_path / "pids").read_text().split()
    until = time.monotonic() + 10
    while alive(int(pid)) and time.monotonic() < until:
        time.sleep(0.05)
    assert not alive(int(pid))


# ── Which Rubies ───────────────────────────────────────────────────────────

def test_stock_is_the_first_of_the_same_version_on_the_path(attempt, tmp_path):
    older, shim = fake_ruby(tmp_path / "older", "default", "3.3.9"), fake_ruby(tmp_path / "shims", "default")
    path = os.pathsep.join([str(older.parent), str(tmp_path / "inside"), str(shim.parent), os.environ["PATH"]])
    done = attempt("--form", "terminal", "--", "ruby", "-c", PROGRAM, stock=None, PATH=path)
    assert done.returncode == 0 and "ruby 3.4.5 fake" in done.stdout, done.stderr


def test_without_a_stock_ruby_one_line_says_what_to_do(attempt, tmp_path):
    older = fake_ruby(tmp_path / "older", "default", "3.3.9")
    done = attempt("--", "ruby", "-c", PROGRAM, stock=None, PATH=f"{older.parent}:/usr/bin:/bin", HOME=str(tmp_path))
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert "there is no stock Ruby 3.4.5 on the PATH" in done.stderr and "3.3.9 at" in done.stderr and "--only ashlar" in done.stderr
    assert attempt("--only", "ashlar", "--form", "terminal", "--", "ruby", "-c", PROGRAM, stock=None, PATH="/usr/bin:/bin").returncode == 0


@pytest.mark.parametrize(("arguments", "complaint"), [
    (("--url", "http://10.0.0.1:80/"), "is not on loopback"),
    (("--url", "https://127.0.0.1/"), "only plain HTTP"),
    (("--get", "index"), "it begins with /"),
    (("--paths", "no-such-file"), "cannot read --paths"),
    (("--header", "nothing", "--get", "/"), "is not of the form 'Name: value'"),
    (("--rate", "5"), "--get /path or --paths FILE"),
    (("--rate", "5000", "--get", "/"), "--rate 5000 is not possible"),
    (("--rounds", "0"), "--rounds 0 is not possible"),
    (("--form", "pdf"), "give some of terminal,html,json"),
    (("--form", ","), "--form is empty; give some of terminal,html,json"),
    (("--output", "no/such/folder/x"), "there is no such folder"),
    (("--output", "stock/"), "--output stock/ is a folder; name the files in it"),
    (("--output", "."), "--output . is a folder; name the files in it"),
    (("--url", "http://127.0.0.1/é"), "is no path to ask for"),
    (("--url", "http://127.0.0.1/a b"), "is no path to ask for"),
    (("--stock", "~nobody-here/bin/ruby"), "is in the home folder of a user that is not there"),
    (("--ashlar", "/no/such/ruby"), "there is no /no/such/ruby"),
    (("--stock", "/bin/true"), "/bin/true cannot be asked"),
])
def test_bad_input_gets_one_line(attempt, arguments, complaint):
    done = attempt(*arguments, "--", "ruby", "-c", PROGRAM)
    assert done.returncode == 2 and complaint in done.stderr and done.stderr.count("\n") == 1, done.stderr


def test_ashlar_on_the_wrong_side_is_refused(attempt, tmp_path):
    done = attempt("--", "ruby", "-c", PROGRAM, inside=tmp_path / "stock/ruby")
    assert "has the collector 'default' inside, not Ashlar" in done.stderr
    done = attempt("--", "ruby", "-c", PROGRAM, stock=tmp_path / "inside/ruby")
    assert "has Ashlar inside; name a Ruby without it" in done.stderr
    done = attempt("--", "ruby", "-c", PROGRAM, stock=fake_ruby(tmp_path / "newer", "default", "3.5.0"))
    assert "they cannot use the same gems" in done.stderr


def test_gems_that_need_a_libruby_are_refused(attempt, tmp_path):
    (tmp_path / "gems/extensions/x86_64-linux/3.4.0/json-1").mkdir(parents=True)
    (tmp_path / "gems/extensions/x86_64-linux/3.4.0/json-1/json.so").write_bytes(b"\x7fELF...libruby.so.3.4\0")
    shared = fake_ruby(tmp_path / "shared", "default", shared="yes", extensions="3.4.0", gems=str(tmp_path / "gems"))
    done = attempt("--", "ruby", "-c", PROGRAM, stock=shared)
    assert done.returncode == 2 and "needs the libruby.so of" in done.stderr and "SHARED=yes" in done.stderr


# ── How a command is started ───────────────────────────────────────────────

def ruby_at(program: str, *programs: str, gems=("/gems",), extensions="3.4.0") -> rubies.Ruby:
    return rubies.Ruby(Path(program), "3.4.5", "ruby", "3.4.0", "default", False, extensions, "x86_64-linux", gems, programs)


def test_scripts_run_on_the_ruby_that_is_meant(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    gems = tmp_path / "gems/bin"
    gems.mkdir(parents=True)
    for path, first in ((gems / "puma", "#!/stock/bin/ruby"), (tmp_path / "rails", "#!/usr/bin/env ruby"), (tmp_path / "start.sh", "#!/bin/sh")):
        path.write_text(f"{first}\n")
        path.chmod(0o755)
    stock, inside = ruby_at("/stock/bin/ruby", str(gems)), ruby_at("/inside/bin/ruby3.4", gems=("/others",), extensions="3.4.0-static")

    def prepared(*command):
        scratch = tmp_path / f"scratch{len(list(tmp_path.iterdir()))}"
        scratch.mkdir()
        return scratch, launch.prepare(list(command), inside, stock, scratch)

    scratch, made = prepared("puma", "-p", "1")
    assert made.command == ("/inside/bin/ruby3.4", str(scratch / "programs/puma"), "-p", "1") and str(gems / "puma") in (scratch / "programs/puma").read_text()
    assert made.environment["GEM_PATH"] == "/gems" and made.environment["RUBYLIB"].startswith(f"{scratch}/library")
    assert made.environment["PATH"].startswith(f"{scratch}/programs:/inside/bin:") and made.environment["RUBYOPT"].startswith(f"-r{scratch}/probe.rb")
    assert "/inside/bin/ruby3.4" in (scratch / "programs/ruby").read_text()
    assert prepared("./rails", "s")[1].command == ("/inside/bin/ruby3.4", "./rails", "s")
    assert prepared("./start.sh")[1].command == ("./start.sh",)
    assert prepared("ruby", "-v")[1].command == ("/inside/bin/ruby3.4", "-v")
    for command, complaint in (("no-such-program", "there is no program"), ("./nothing", "there is no ./nothing")):
        with pytest.raises(BadInput, match=complaint):
            prepared(command)


def test_urls_that_may_be_asked():
    assert server.of_url("http://localhost:3000/up?x=1") == (server.Address("127.0.0.1", 3000), "/up?x=1")
    assert server.of_url("http://[::1]:3000") == (server.Address("::1", 3000), "/")
    for url in ("http://example.org/", "http://0.0.0.0:1/", "http://192.168.1.1/", "ftp://127.0.0.1/", "http://127.0.0.1:99999/", "nonsense"):
        with pytest.raises(BadInput):
            server.of_url(url)


def test_listening_sockets_are_found_by_process():
    with socket.socket() as one, socket.socket(socket.AF_INET6) as other:
        one.bind(("127.0.0.1", 0))
        one.listen()
        other.bind(("::", 0))
        other.listen()
        found, refused = server.listening([os.getpid()])
        assert server.Address("127.0.0.1", one.getsockname()[1]) in found and server.Address("::1", other.getsockname()[1]) in found and not refused
        assert server.taken(server.Address("127.0.0.1", one.getsockname()[1]))
        assert server.listening([1 << 22]) == ([], [])


# ── Answers and percentiles ────────────────────────────────────────────────

HEAD = b"HTTP/1.1 200 OK\r\n"


def answer(came: bytes, ended: bool) -> tuple[int, bool]:
    """What is read of what came; (0, False) where the answer is waited for."""
    async def read():
        reader = asyncio.StreamReader()
        reader.feed_data(came)
        if ended:
            reader.feed_eof()
        return await asyncio.wait_for(requests.answer(reader), 0.2)

    try:
        return asyncio.run(read())
    except TimeoutError:
        return 0, False


@pytest.mark.parametrize(("came", "ended", "found"), [
    (HEAD + b"Content-Length: 5\r\n\r\nhello", False, (200, False)),
    (HEAD + b"Content-Length: 5\r\n\r\nhell", False, (0, False)),
    (HEAD + b"Content-Length: 0\r\nConnection: close\r\n\r\n", False, (200, True)),
    (HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", False, (200, False)),
    (HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhel", False, (0, False)),
    (HEAD + b"Transfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n", False, (0, False)),
    (HEAD + b"\r\nuntil the end", False, (0, False)),
    (HEAD + b"\r\nuntil the end", True, (200, True)),
    (b"HTTP/1.1 204 No Content\r\n\r\n", False, (204, False)),
    (b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + HEAD + b"Content-Length: 1\r\n\r\nx", False, (200, False)),
    (b"HTTP/1.0 302 Found\r\nContent-Length: 0\r\n\r\n", False, (302, True)),
    (b"HTTP/1.1 200", False, (0, False)),
])
def test_answers_are_read_to_their_end(came, ended, found):
    assert answer(came, ended) == found


def test_what_is_no_answer_is_said():
    for came in (b"SSH-2.0\r\n\r\n", HEAD + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n", HEAD + b"Transfer-Encoding: chunked\r\n\r\n-5\r\n",
                 HEAD + b"Content-Length: " + 5000 * b"9" + b"\r\n\r\n", b"HTTP/1.1 " + 5000 * b"2" + b" OK\r\n\r\n"):
        with pytest.raises(requests.Unreadable):
            answer(came, False)


def test_a_percentile_rests_on_twenty_slower_requests():
    found = Answered([i / 1000 for i in range(1, 2001)])
    assert found.percentile_s(0.5) == 1.0 and found.percentile_s(0.99) == 1.98
    assert Answered(found.latencies_s[:1999]).percentile_s(0.99) is None and Answered([0.1] * 40).percentile_s(0.5) == 0.1 and Answered([0.1] * 39).percentile_s(0.5) is None


def test_failed_requests_are_slower_than_all_others():
    assert Answered([0.1] * 60 + [math.inf] * 40).percentile_s(0.7) == math.inf


class Listening:
    """A server that answers what it is told to, connection by connection."""

    def __init__(self, handle):
        import threading

        self.socket = socket.create_server(("127.0.0.1", 0))
        self.address = server.Address("127.0.0.1", self.socket.getsockname()[1])
        threading.Thread(target=self._accept, args=(handle, threading), daemon=True).start()

    def _accept(self, handle, threading):
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            threading.Thread(target=handle, args=(connection,), daemon=True).start()


ANSWER = HEAD + b"Content-Length: 2\r\n\r\nok"


def test_a_server_that_stalls_is_charged_for_all_that_waited():
    begun = time.monotonic()

    def handle(connection):
        while connection.recv(4096):
            if 0.2 < time.monotonic() - begun < 0.7:
                time.sleep(begun + 0.7 - time.monotonic())
            connection.sendall(ANSWER)

    found = requests.ask(Listening(handle).address, ["/"], [], 100, 1, lambda: True, connections=1)
    slow = [one for one in found.latencies_s if one > 0.1]
    assert len(found.latencies_s) == 100 and not found.failed and 30 <= len(slow) <= 60 and 0.4 < max(slow) < 0.7


def test_a_connection_that_was_closed_is_no_failure():
    def handle(connection):
        for _ in range(3):
            connection.recv(4096)
            connection.sendall(ANSWER)
        connection.close()

    found = requests.ask(Listening(handle).address, ["/"], [], 100, 0.5, lambda: True, connections=2)
    assert found.failed == 0 and found.statuses == {200: 50}


def test_a_request_that_is_never_answered_fails():
    monkey = requests._LATE_S
    requests._LATE_S = 0.5
    try:
        found = requests.ask(Listening(lambda connection: (connection.recv(4096), time.sleep(60))).address, ["/"], [], 20, 0.5, lambda: True)
    finally:
        requests._LATE_S = monkey
    assert found.failed == 10 and found.failures == {"not answered": 10}


# ── Figures ────────────────────────────────────────────────────────────────

def a_run(side, number=1, mib=100.0, cpu_s=1.0, **more) -> Run:
    samples = [Sample(at / 10, round(mib * MIB), 0, 1, 0, 0.0) for at in range(11)]
    return Run(side, number, Seen(samples, {"/ruby": 1}), (0.0, 1.0), cpu_s=cpu_s, **more)


def figure(name, *runs):
    return next(f for f in compare.figures(runs) if f.name == name)


def test_settled_memory_is_the_mean_of_the_last_half():
    run = a_run("stock")
    run.seen.samples[:] = [Sample(at / 10, at * MIB, 0, 1, 0, 0.0) for at in range(11)]
    assert compare.settled_pss(run) == 7.5 * MIB


def test_one_run_each_claims_nothing_and_shows_what_is_large():
    small = figure("memory", a_run("stock"), a_run("ashlar", mib=97))
    large = figure("memory", a_run("stock"), a_run("ashlar", mib=80))
    assert small.spread is None and not small.differs and large.differs
    assert compare.verdict([large], 1) == ["With Ashlar, in one run each: memory 80.0 MiB instead of 100 MiB (−20.0 %); "
                                           "--rounds 3 tells whether that is more than runs of the same Ruby differ by"]
    assert compare.verdict([large], 2) == ["With Ashlar: 20 % less memory (80.0 MiB instead of 100 MiB)"]
    assert compare.verdict([small], 1) == ["No difference larger than one run each can tell: memory (−3.0 %)"]


def test_times_of_a_single_run_on_a_busy_machine_are_not_claimed():
    busy = [a_run("stock", cpu_s=2.0, others=0.5), a_run("ashlar", mib=50, others=0.02)]
    assert not figure("cpu_s", *busy).differs and figure("memory", *busy).differs
    assert any("Other programs used up to 50 %" in one for one in compare.warnings(busy))
    again = [*busy, a_run("stock", 2, cpu_s=2.1), a_run("ashlar", 2, mib=50)]
    assert figure("cpu_s", *again).differs


def test_several_runs_claim_what_the_same_ruby_does_not_show():
    runs = [a_run("stock", 1, 100), a_run("stock", 2, 104), a_run("ashlar", 1, 97), a_run("ashlar", 2, 97)]
    within, beyond = figure("memory", *runs), figure("memory", *runs[:2], a_run("ashlar", 1, 88), a_run("ashlar", 2, 88))
    assert within.spread == pytest.approx(4 / 102) and within.ratio == pytest.approx(97 / 102) and within.noise == pytest.approx(3 * 4 / 102)
    assert not within.differs and beyond.differs
    third = [*runs, a_run("stock", 3, 102), a_run("ashlar", 3, 97)]
    assert figure("memory", *third).noise == pytest.approx(1.5 * 4 / 102) and not figure("memory", *third).differs
    assert figure("memory", *third[:-1]).noise == pytest.approx(3 * 4 / 102), "the fewer of the two count"
    assert figure("memory", *runs[:3]).noise == pytest.approx(11 * 4 / 102)
    assert figure("memory", *(a_run(side, n) for n in range(5) for side in ("stock", "ashlar"))).noise == compare.ONE_RUN["memory"] / 10
    said = compare.verdict([figure("memory", *runs[:2], a_run("ashlar", 1, 99), a_run("ashlar", 2, 99))], 2)
    assert said[0].startswith("No difference larger than runs of the same Ruby differ by")


@pytest.mark.parametrize("rounds", [2, 3, 4, 5])
def test_equal_rubies_are_called_different_in_at_most_5_of_100_figures(rounds):
    rng = np.random.default_rng(rounds)
    drawn = [Figure("m", "", str, {side: tuple(np.exp(rng.normal(0, 0.05, rounds))) for side in ("stock", "ashlar")}, "memory", "memory") for _ in range(4000)]
    assert sum(f.differs for f in drawn) <= 0.05 * len(drawn)
    apart = [f._replace(values={**f.values, "ashlar": tuple(2 * v for v in f.values["ashlar"])}) for f in drawn]
    assert sum(f.differs for f in apart) >= 0.98 * len(apart), "and twice as much is seen"


def test_a_percentile_that_failed_on_one_side_is_in_the_verdict():
    def asked(side, number, failing):
        return a_run(side, number, answered=Answered([0.1] * (1980 - failing) + [math.inf] * (20 + failing)))

    p99 = figure("p99_s", asked("stock", 1, 0), asked("ashlar", 1, 1))
    assert p99.ratio is None and compare.verdict([p99], 1) == ["p99 failed on Ashlar"]
    both = [asked("stock", 1, 0), asked("ashlar", 1, 0), asked("ashlar", 2, 1), asked("stock", 2, 0)]
    assert "p99 failed on Ashlar in 1 of 2 rounds" in compare.verdict(compare.figures(both), 2)
    assert compare.verdict([figure("p99_s", asked("stock", 1, 0), asked("ashlar", 1, 0))], 1) == ["No difference larger than one run each can tell: p99 (+0.0 %)"]


def test_more_is_said_as_plainly_as_less():
    runs = [a_run("stock", cpu_s=2.0), a_run("ashlar", mib=150, cpu_s=1.0)]
    (first_look,) = compare.verdict(compare.figures(runs), 1)
    assert "CPU time 1 s instead of 2 s (−50.0 %), memory 150 MiB instead of 100 MiB (+50.0 %);" in first_look and "less" not in first_look
    twice = [*runs, a_run("stock", 2, cpu_s=2.0), a_run("ashlar", 2, mib=150, cpu_s=1.0)]
    assert compare.verdict(compare.figures(twice), 2) == ["With Ashlar: 50 % less CPU time (1 s instead of 2 s)", "But 50 % more memory (150 MiB instead of 100 MiB)"]


def test_a_run_that_was_cut_short_is_compared_with_nothing():
    runs = [a_run("stock", cpu_s=4.0), a_run("ashlar", mib=50, cpu_s=0.5, interrupted=True)]
    assert figure("cpu_s", *runs).values == {"stock": (4.0,), "ashlar": ()} and figure("peak_memory", *runs).values["ashlar"] == ()
    assert figure("memory", *runs).values == {"stock": (100 * MIB,), "ashlar": (50 * MIB,)} and not figure("memory", *runs).differs
    assert compare.verdict(compare.figures(runs), 1) == []
    said = compare.warnings(runs)
    assert any(one.endswith("is among these figures as far as they do not grow with time") for one in said) and any(one.startswith("Not all runs") for one in said)
    others = [a_run("stock", 2, cpu_s=4.0), a_run("ashlar", 2, mib=80, cpu_s=2.0)]
    assert figure("memory", *runs, *others).values["ashlar"] == (80 * MIB,), "whole runs of the same side are enough"
    assert figure("memory", *runs, *others).differs and figure("cpu_s", *runs, *others).differs
    program = [a_run("stock", cpu_s=4.0, status=0), runs[1]]
    assert figure("memory", *program).values["ashlar"] == () and compare.verdict(compare.figures(program), 1) == []
    assert any(one.endswith("and is not among these figures") for one in compare.warnings(program))
    assert len(figure("memory", a_run("stock", status=-15, interrupted=True)).values["stock"]) == 1, "all that there is"


def test_a_round_counts_when_it_is_whole_on_both():
    once = [a_run("stock"), a_run("ashlar", mib=101)]
    short, whole, nothing_seen = a_run("ashlar", 2, interrupted=True), a_run("ashlar", 2), a_run("ashlar", 2)
    nothing_seen.seen.samples.clear()
    for runs in ([*once, short], [*once, whole], [*once, nothing_seen, a_run("stock", 2)]):
        found = report.Found(one_run.Plan(["ruby"]), {}, runs)
        (sentence,) = found.verdict
        assert sentence.startswith("No difference larger than one run each can tell")
        assert not any("times" in one for one in report.facts(found))
    assert report.Found(one_run.Plan(["ruby"]), {}, [*once, short]).warnings[0].startswith("One run each: differences below about")
    assert report.Found(one_run.Plan(["ruby"]), {}, [*once, whole]).warnings[0].startswith("One whole run on stock: differences below about")
    twice = report.Found(one_run.Plan(["ruby"]), {}, [*once, whole, a_run("stock", 2)])
    assert "runs of the same Ruby" in twice.verdict[0] and "watched 2 times on each for 1 s" in report.facts(twice)
    assert not any("mean nothing" in one for one in twice.warnings)
    assert report.Found(one_run.Plan(["ruby"]), {}, [a_run("stock", interrupted=True)]).rounds == 1


@pytest.mark.parametrize("statuses", [(0, 1), (1, 1), (0, None)])
def test_runs_that_did_not_do_the_same_work_are_not_compared(statuses):
    runs = [a_run(side, mib=mib, cpu_s=mib, status=status) for side, mib, status in zip(("stock", "ashlar"), (100, 20), statuses)]
    assert not any(one.differs for one in compare.figures(runs)) and compare.verdict(compare.figures(runs), 1) == []
    assert any(one.startswith("Not all runs did the same work") for one in compare.warnings(runs))


def test_what_the_collector_did_is_counted_from_forks_and_moments(tmp_path):
    """A parent, a child that it forked, and one that became another program; times before the moment asked for do not count."""
    (tmp_path / "gc.1").write_text("began 100 5 4 1 5000\nasked 200 10 7 2 10000\nended 400 30 9 3 30000\n")
    (tmp_path / "gc.2").write_text("forked 150 8 5 1 8000\nasked 210 9 5 1 9000\nended 390 19 8 2 19000\n")
    (tmp_path / "gc.3").write_text("began 110 3 2 1 3000\nleft 120 4 3 1 4000\nbegan 130 2 1 1 2000\nended 140 6 4 1 6000\n")
    whole = collector.read(tmp_path)
    assert (whole.collections, whole.major, whole.full) == (30 + 11 + 4 + 6, 9 + 3 + 3 + 4, 3 + 1 + 1 + 1)
    assert (whole.collector_s, whole.processes, whole.silent) == ((30 + 11 + 4 + 6) / 1e6, 3, 0)
    counted = {f.name: (f.label, f.values["ashlar"]) for f in compare.figures([a_run("ashlar", collected=whole)])}
    assert counted["major_collections"] == ("of these major", (19,)) and counted["full_collections"] == ("of these full", (6,))
    window = collector.read(tmp_path, 250, 395)
    assert (window.collections, window.silent, window.processes) == (10, 1, 2)  # of the parent nothing is known at 395
    assert collector.read(tmp_path, 250).collections == 20 + 10


def test_a_process_that_says_nothing_at_its_end_is_counted(tmp_path):
    (tmp_path / "gc.1").write_text("began 100 5 4 1 5000\n")
    assert collector.read(tmp_path).silent == 1 and collector.read(tmp_path / "none") is None


# ── With the Rubies themselves ─────────────────────────────────────────────

@pytest.fixture(scope="module")
def pair():
    """(stock Ruby, Ruby with this clone's Ashlar inside)."""
    if not (os.environ.get("RUBY_STOCK") and os.environ.get("RUBY_INSIDE")):
        pytest.skip('needs both Rubies: eval "$(make -s env)"')
    return os.environ["RUBY_STOCK"], os.environ["RUBY_INSIDE"]


@pytest.fixture
def attempt_really(attempt, pair):
    return lambda *arguments, **more: attempt("--form", "terminal,json", *arguments, stock=pair[0], inside=pair[1], **more)


def found(tmp_path) -> SimpleNamespace:
    told = json.loads((tmp_path / "ashlar-try.json").read_text())
    return SimpleNamespace(figures=told["figures"], runs=told["runs"], warnings=told["warnings"])


def test_a_ruby_server_tells_what_its_collector_did(attempt_really, tmp_path, pair):
    done = attempt_really("--get", "/", "--get", "/articles/5.json", "--seconds", "2", "--warm-up", "0.5", "--rate", "50", "--",
                          "ruby", CLONE / "workloads/ruby/server.rb", free_port())
    assert done.returncode == 0, done.stderr
    told = found(tmp_path)
    assert all(run["collected"]["silent"] == 0 and run["collected"]["processes"] == 1 and run["statuses"] == {"200": 100} for run in told.runs)
    assert [list(run["programs"]) for run in told.runs] == [[str(Path(one).resolve())] for one in pair]


FORKING = """
require "socket"
listener = TCPServer.new("127.0.0.1", Integer(ARGV[0]))
kept = Array.new(50_000) { |i| i.to_s * 5 }
pids = Array.new(2) { fork { trap("TERM") { exit! }; loop { c = listener.accept; c.readpartial(4096); kept[rand(50_000)] = Array.new(2000) { |i| i.to_s }.last
  c.write("HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\nConnection: close\\r\\n\\r\\nok"); c.close } } }
trap("TERM") { pids.each { |pid| Process.kill("TERM", pid) }; Process.waitall; exit }
sleep
"""


def test_forked_workers_are_counted(attempt_really, tmp_path):
    (tmp_path / "forking.rb").write_text(FORKING)
    done = attempt_really("--get", "/", "--seconds", "2", "--warm-up", "0", "--rate", "100", "--", "ruby", "forking.rb", free_port())
    assert done.returncode == 0 and "private dirty of workers" in done.stdout, done.stderr
    for run in found(tmp_path).runs:
        told = run["collected"]
        assert told["processes"] == 3 and told["silent"] == 0 and told["collections"] > 0 and run["samples"][-1]["workers"] == 2, told


def test_a_program_of_a_gem_and_one_of_the_other_ruby_run_on_the_ruby_meant(attempt_really, tmp_path, pair):
    """A stub with the stock Ruby in its first line: started itself, started by a Ruby program, and through a shell."""
    (tmp_path / "tool").write_text(f"#!{pair[0]}\nsleep 0.3\nputs RUBY_VERSION\n")
    (tmp_path / "tool").chmod(0o755)
    for command in (("./tool",), ("ruby", "-e", f"exec({str(tmp_path / 'tool')!r})"), ("sh", "-c", "ruby -e 'sleep 0.3'"),
                    ("ruby", "-e", "exec(RbConfig.ruby, '-e', 'sleep 0.3')")):
        done = attempt_really("--output", "ashlar-try", "--", *command)
        assert done.returncode == 0, done.stderr
        told = found(tmp_path)
        assert not [w for w in told.warnings if "did not run" in w or "ran as well" in w], told.warnings
    done = attempt_really("--output", "ashlar-try", "--", "sh", "-c", "exec ./tool")  # out of reach: it is said
    assert "ran as well" in done.stdout or "did not run" in done.stdout


def test_options_of_rubys_are_kept(attempt_really, tmp_path):
    (tmp_path / "more.rb").write_text("$more = 'more'\n")
    (tmp_path / "program.rb").write_text("abort 'lost' unless $more == 'more' && $VERBOSE\nArray.new(300_000) { |i| i.to_s }\n")
    done = attempt_really("--", "ruby", "program.rb", RUBYOPT=f"-w -r{tmp_path}/more.rb")
    assert done.returncode == 0, done.stdout


def test_a_process_that_was_started_has_ended(tmp_path):
    one = Process(launch.Launch(("sh", "-c", "sleep 300 & exit 3"), dict(os.environ)), tmp_path / "out")
    until = time.monotonic() + 10
    while one.running and time.monotonic() < until:
        time.sleep(0.02)
    assert one.status == 3 and one.pids()
    one.end(0.2)
    assert not one.pids()
