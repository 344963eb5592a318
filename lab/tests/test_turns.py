"""Runs that take turns: one at a time, each with its own time only, and what else may happen to them."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest
from conftest import PYTHON

from ashlar.errors import BadInput
from ashlar.memory import launcher
from ashlar_lab.experiment.model import Experiment, Program, Server, Stop, Variant
from ashlar_lab.experiment.check import checked
from ashlar_lab.experiment.toml import parse
from ashlar_lab.measure import checks, machine
from ashlar_lab.measure.block import groups
from ashlar_lab.measure.session import measure
from ashlar_lab.measure.turns import taken
from ashlar_lab.store.database import Store
from ashlar_lab.store.run import CRASHED, OK, TIMED_OUT

# Uses 0.3 s of CPU time and notes when it ran: a line for each stretch without a gap of 20 ms.
_NOTES = """
import os, sys, time
began = last = time.monotonic()
with open(sys.argv[1], 'a') as file:
    while time.process_time() < 0.3:
        now = time.monotonic()
        if now - last > 0.02:
            print(began, last, file=file)
            began = now
        last = now
    print(began, last, file=file)
"""


def experiment(*commands: tuple[str, ...], **rest) -> Experiment:
    variants = tuple(Variant(f"v{n}", "env", command=command) for n, command in enumerate(commands))
    return checked(Experiment("turns", (Program("work", compare_output=False),), variants, "v0", Stop(2, 2), turns_s=0.05, **rest), "test")


def measured(tmp_path, asked: Experiment):
    assert measure(asked, tmp_path / "s.ashlar", quiet=True)
    return [run for run in Store.open(tmp_path / "s.ashlar").runs() if run.block >= 0]


def stretches(path) -> list[tuple[float, float]]:
    return sorted(tuple(map(float, line.split())) for line in path.read_text().splitlines())


def test_one_runs_while_the_others_stand_still(tmp_path):
    notes = tmp_path / "notes"
    command = (PYTHON, "-S", "-c", _NOTES, str(notes))
    runs = measured(tmp_path, experiment(command, command, check=False))
    found = stretches(notes)
    # 0.3 s are six turns, some of them two in a row; a machine that stands still itself makes more gaps.
    assert len(runs) == 6 and len(found) >= 6 * 3
    overlap = sum(max(0.0, before[1] - after[0]) for before, after in zip(found, found[1:]))
    assert overlap < 0.05 * sum(end - start for start, end in found)
    assert all("ASHLAR_TAKES_TURNS" not in run.environment for run in runs)


def test_only_a_run_s_own_time_is_counted(tmp_path):
    busy = "import time\nwhile time.process_time() < 0.3: pass"
    began = time.monotonic()
    runs = measured(tmp_path, experiment(*[(PYTHON, "-S", "-c", busy)] * 3, check=False))
    lasted_s = time.monotonic() - began
    for run in runs:
        assert run.state == OK and 0.25 < run.metrics["cpu_s"] < 0.6
    # Were the others' time counted, too, it would be several times as long.
    assert sum(run.metrics["wall_s"] for run in runs) < 1.2 * lasted_s
    assert all(run.series[-1][0] <= run.metrics["wall_s"] + 0.1 for run in runs)


def test_a_whole_tree_stands_still(tmp_path):
    forks = f"import os\nfor _ in range(3): os.fork()\nimport sys\nsys.argv = ['', '{tmp_path}/' + str(os.getpid())]\n" + _NOTES
    wrapped = f"import os, subprocess, sys\nsubprocess.run([sys.executable, '-S', '-c', {forks!r}])\nwhile True:\n    try: os.wait()\n    except ChildProcessError: break"
    alone = tmp_path / "alone"
    runs = measured(tmp_path, experiment((PYTHON, "-S", "-c", wrapped), (PYTHON, "-S", "-c", _NOTES, str(alone)), check=False))
    assert all(run.state == OK for run in runs)
    own = stretches(alone)
    trees = [stretches(path) for path in tmp_path.iterdir() if path.name.isdigit()]
    assert len(trees) >= 8 * 2  # processes of the tree, in two blocks
    together = max(sum(max(0.0, min(a[1], b[1]) - max(a[0], b[0])) for a in own for b in process) for process in trees)
    assert together < 0.1 * sum(end - start for start, end in own)


def test_a_program_is_told_and_one_that_fails_stops_no_other(tmp_path):
    good = (PYTHON, "-S", "-c", "import os; os.environ['ASHLAR_TAKES_TURNS']; x = sum(range(3000000))")
    runs = measured(tmp_path, experiment(good, (PYTHON, "-S", "-c", "import os; os.abort()"), check=False))
    assert {run.variant: run.state for run in runs} == {"v0": OK, "v1": CRASHED}


def test_an_ordinary_run_is_not_told(tmp_path):
    command = (PYTHON, "-S", "-c", "import os, sys; sys.exit('ASHLAR_TAKES_TURNS' in os.environ)")
    asked = Experiment("alone", (Program("work", compare_output=False),), (Variant("v0", "env", command=command),), "v0", Stop(1, 1), check=False)
    assert {run.state for run in measured(tmp_path, asked)} == {OK}


def test_a_command_that_cannot_run_ends_all(tmp_path):
    long = (PYTHON, "-S", "-c", "import time\nwhile time.process_time() < 60: pass")
    began = time.monotonic()
    with pytest.raises(BadInput, match="cannot run '/no/such"):
        measure(experiment(long, ("/no/such/program",), check=False), tmp_path / "s.ashlar", quiet=True)
    assert time.monotonic() - began < 30


def test_an_interrupt_ends_all_and_leaves_nobody(tmp_path):
    pids = tmp_path / "pids"
    code = f"import os, time\nopen({str(pids)!r}, 'a').write(f'{{os.getpid()}} ')\nwhile time.process_time() < 60: pass"
    asked = experiment(*[(PYTHON, "-S", "-c", code)] * 2, check=False)

    def interrupt():
        until = time.monotonic() + 60
        while time.monotonic() < until and (not pids.exists() or len(pids.read_text().split()) < 3):
            time.sleep(0.02)
        time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    assert not measure(asked, tmp_path / "s.ashlar", quiet=True)
    assert Store.open(tmp_path / "s.ashlar").runs() == []
    for pid in pids.read_text().split():
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid), 0)


def test_a_run_that_hangs_is_ended_at_its_time_limit(tmp_path):
    hangs = (PYTHON, "-S", "-c", "while True: pass")
    asked = Experiment("turns", (Program("work", compare_output=False, timeout_s=0.5),), (Variant("v0", "env", command=hangs), Variant("v1", "env", command=hangs)), "v0",
                       Stop(1, 1), turns_s=0.05, check=False)
    assert {run.state for run in measured(tmp_path, asked)} == {TIMED_OUT}


def held_launcher(tmp_path, code: str, **options):
    """A launcher of Python code that can be held, and the end of the pipe on which it tells; it knows its signals."""
    told, fd = os.pipe()
    process = launcher.start((PYTHON, "-S", "-c", code), result=tmp_path / "observed", environment=dict(os.environ), errors=tmp_path / "errors", turns_fd=fd, **options)
    os.close(fd)
    assert os.read(told, 1) == b"r"
    return process, told


def test_the_launcher_s_clock_stands_still_with_the_command(tmp_path):
    """Held for longer than its time limit, the command takes no more than its own time, and goes on afterwards."""
    began = time.monotonic()
    process, held = held_launcher(tmp_path, "import time\nwhile time.process_time() < 0.3: pass", timeout_s=8)
    process.send_signal(signal.SIGUSR2)
    assert os.read(held, 1) == b"h"
    away = time.monotonic()
    time.sleep(10)
    assert process.poll() is None, "its time limit counts its own time"
    away_s = time.monotonic() - away
    process.send_signal(signal.SIGCONT)
    process.wait(timeout=60)
    assert os.read(held, 1) == b""
    os.close(held)
    seen = launcher.read_observed(tmp_path / "observed")
    assert seen.numbers["exit"] == 0 and not seen.timed_out
    assert seen.numbers["wall_ns"] / 1e9 < time.monotonic() - began - 0.9 * away_s


def test_a_turn_that_is_over_before_it_began_is_told(tmp_path):
    """Both signals wait for the launcher, which is stopped itself: SIGUSR2 comes first, though it was sent later."""
    process, held = held_launcher(tmp_path, "import time\nwhile time.process_time() < 0.3: pass")
    process.send_signal(signal.SIGUSR2)
    assert os.read(held, 1) == b"h"
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
    process.send_signal(signal.SIGUSR2)
    process.send_signal(signal.SIGCONT)  # also makes it go on
    assert os.read(held, 1) == b"h"
    process.send_signal(signal.SIGCONT)
    assert process.wait(timeout=60) == 0
    os.close(held)
    assert launcher.read_observed(tmp_path / "observed").numbers["exit"] == 0


def test_a_launcher_that_is_told_to_end_while_its_command_stands_still_ends_it(tmp_path):
    process, held = held_launcher(tmp_path, f"import os, time\nopen({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))\ntime.sleep(600)")
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
        time.sleep(0.01)
    process.send_signal(signal.SIGUSR2)
    assert os.read(held, 1) == b"h"
    process.terminate()
    process.wait(timeout=20)
    os.close(held)
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_an_error_of_one_ends_those_that_have_not_begun():
    began = []

    def fails(turn):
        turn.wait()
        raise BadInput("no")

    def waits(turn):
        turn.wait()
        began.append(turn)

    with pytest.raises(BadInput, match="no"):
        taken([fails, waits], 0.05)
    assert not began


@pytest.mark.parametrize("turns_s", [0, 0.01, -1, 61, float("nan")])
def test_turns_that_are_no_turns_are_refused(turns_s):
    with pytest.raises(BadInput, match="turns_s = "):
        checked(Experiment("e", (Program("p", ("true",)),), (Variant("v", "env"),), "v", turns_s=turns_s), "test")


def test_servers_take_no_turns():
    server, other = Program("server", ("true",), server=Server(0, 10.0)), Program("other", ("true",))
    asked = Experiment("e", (server, other), (Variant("v", "env"), Variant("w", "env")), "v", turns_s=1)
    assert sorted(len(group) for group in groups(checked(asked, "test"), 0)) == [1, 1, 1, 3]
    assert {arm.program for group in groups(asked, 0) for _, arm in group if len(group) == 1} == {"server"}
    assert sorted(placed for group in groups(asked, 0) for placed in group) == list(enumerate(asked.order(0)))
    with pytest.raises(BadInput, match="servers take no turns"):
        checked(dataclasses.replace(asked, programs=(server,)), "test")


def test_runs_that_do_not_fit_into_memory_together_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "available_mib", lambda: 20.0)
    command = (PYTHON, "-S", "-c", "x = bytes(12 << 20); import time\nwhile time.process_time() < 0.1: pass")
    with pytest.raises(BadInput, match=r"work: its runs that take turns would fill \d+ MiB together, and 20 MiB are free"):
        measure(experiment(command, command), tmp_path / "s.ashlar", quiet=True)
    checks.refuse_more_than_fits(Experiment("e", (), (), "v"), [])  # without turns nothing is asked


# A store that was written before runs could take turns has this one.
IDENTITY_BEFORE_TURNS = "6492aa25ebaa0ada"


def test_how_runs_are_made_is_part_of_what_an_experiment_is(tmp_path):
    plain = Experiment("e", (Program("p", ("true",)),), (Variant("v", "env"),), "v")
    assert dataclasses.replace(plain, turns_s=0.5).identity() != plain.identity()
    assert plain.identity() == IDENTITY_BEFORE_TURNS
    older = {name: value for name, value in json.loads(plain.to_json()).items() if name != "turns_s"}
    assert Experiment.from_json(json.dumps(older)) == plain
    toml = {"experiment": {"turns_s": 1}, "program": [{"name": "p", "command": ["true"]}], "variant": [{"name": "v"}]}
    whole = parse(toml, tmp_path, "test")
    assert whole.identity() == parse({**toml, "experiment": {"turns_s": 1.0}}, tmp_path, "test").identity()


def test_a_resumed_store_keeps_its_turns(tmp_path):
    said = subprocess.run([sys.executable, "-m", "ashlar_lab", "compare", "--resume", "x.ashlar", "--turns", "1"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert said.returncode == 2 and "--turns says how runs are made" in said.stderr


def test_the_page_says_that_runs_took_turns(tmp_path):
    command = f"{PYTHON} -S -c 'x = sum(range(4000000))'"
    subprocess.run([sys.executable, "-m", "ashlar_lab", "compare", "-v", f"a=command:{command}", "-v", f"b=command:{command}", "--blocks", "1", "--turns", "0.05", "--name", "t",
                    "--form", "record", "--quiet"], cwd=tmp_path, check=True)
    assert "runs in turns of 0.05 s" in (tmp_path / "t.md").read_text()
