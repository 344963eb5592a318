"""Real schedulers and workers on loopback: a slow machine, a lying one, a lost one, an interrupt, and going on elsewhere."""

import contextlib
import dataclasses
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import PYTHON

from ashlar_lab.fit.analysis import analyse
from ashlar_lab.store import Store
from ashlar_lab.store.database import read_all

distributed = pytest.importorskip("distributed", reason="the extra 'cluster' is not installed; scripts/lab/setup.sh installs it")

# The work takes SLOW times as long on a machine that has SLOW, and the variant `new` LIE times as long as it should.
PROGRAM = """
import os, sys, time
factor = float(os.environ.get("SLOW", 1)) * (float(os.environ.get("LIE", 1)) if os.environ["KIND"] == "new" else 1)
end = time.process_time() + 0.05 * factor * (0.7 if os.environ["KIND"] == "new" else 1)
while time.process_time() < end:
    sum(range(1000))
print(open(sys.argv[1]).read(), end="")
"""


class Machines:
    """A scheduler and workers, each worker a process of its own with an environment of its own."""

    def __init__(self, folder, *options):
        self.folder, self.processes, self.options = folder, [], options
        self.file = folder / "scheduler.json"
        self.scheduler = self._start("distributed.cli.dask_scheduler", "--host", "tls://127.0.0.1" if options else "127.0.0.1", "--port", "0", "--no-dashboard",
                                     "--scheduler-file", str(self.file), *options)
        self.address = self._wait_for(lambda: json.loads(self.file.read_text())["address"])

    def _start(self, module, *arguments, **environment):
        process = subprocess.Popen([sys.executable, "-m", module, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   env={**os.environ, **environment}, cwd=self.folder, start_new_session=True)
        self.processes.append(process)
        return process

    def worker(self, name, **environment):
        """A worker that measures as the machine `name`, whose cache is its own."""
        return self._start("distributed.cli.dask_worker", self.address, "--no-nanny", "--nthreads", "1", "--no-dashboard", "--name", name, "--resources",
                           "ashlar=1", "--local-directory", str(self.folder / name), *self.options, ASHLAR_CACHE=str(self.folder / name / "cache"), **environment)

    def wait(self, count, **client):
        with distributed.Client(self.address, set_as_default=False, **client) as client:
            client.wait_for_workers(count, timeout=60)

    @staticmethod
    def _wait_for(what, seconds=30):
        end = time.monotonic() + seconds
        while True:
            try:
                return what()
            except (OSError, ValueError, KeyError):
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)

    def close(self):
        for process in reversed(self.processes):
            if process.poll() is None:
                process.kill()
            process.wait()


@pytest.fixture
def machines(tmp_path):
    folder = tmp_path / "machines"
    folder.mkdir()
    found = Machines(folder)
    yield found
    found.close()


@pytest.fixture
def program(tmp_path):
    """A command whose program and input lie beside each other, as files that must travel."""
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "input").write_text("the same everywhere\n")
    return ("--", PYTHON, "program.py", "input")


PAIR = ("compare", "-v", "old=env:KIND=old", "-v", "new=env:KIND=new", "--store", "s.ashlar", "--form", "json")


def whole_blocks(runs):
    found = {}
    for r in runs:
        if r.block >= 0:
            found.setdefault(r.block, []).append(r.machine)
    assert all(len(set(on)) == 1 for on in found.values()), "a block stays on one machine"
    return {block: on[0] for block, on in found.items() if len(on) == 3}


def test_a_slow_machine_changes_no_ratio_and_seconds_are_not_pooled(ashlar, tmp_path, machines, program):
    machines.worker("quick")
    machines.worker("slow", SLOW="3")
    machines.wait(2)
    done = ashlar(*PAIR, "--blocks", "10", "--on", machines.address, *program)
    assert done.returncode == 0, done.stderr
    assert "quick takes part" in done.stderr and "slow takes part" in done.stderr
    experiment, machine, runs = read_all([tmp_path / "s.ashlar"])
    on = whole_blocks(runs)
    assert len(on) == 10 and set(on.values()) == {"quick", "slow"} and set(machine["machines"]) == {"quick", "slow"}
    found = analyse(experiment, runs)
    ratio = found.ratio(experiment.programs[0].name, "new", "cpu_s")
    assert 0.6 < ratio.value < 0.9
    speed = next(m.speed for m in found.machines.machines if m.speed)
    assert 1.5 < max(speed.value, 1 / speed.value) < 4
    level = found.level(experiment.programs[0].name, "old", "cpu_s").mean.value
    own = [r.metrics["cpu_s"] for r in runs if r.machine == found.machines.reference and r.variant == "old" and r.role == "main" and r.block >= 0]
    assert min(own) <= level <= max(own), "the seconds shown are those of one machine"
    assert [p for name in ("quick", "slow") for p in (machines.folder / name / "cache" / "lab" / "sessions").rglob("*")] == [], "sessions are tidied away"


def test_a_lying_machine_is_named(ashlar, tmp_path, machines, program):
    for name in ("a", "b"):
        machines.worker(name)
    machines.worker("liar", LIE="4")
    machines.wait(3)
    done = ashlar(*PAIR, "--blocks", "18", "--on", machines.address, *program)
    assert done.returncode == 0, done.stderr
    experiment, _, runs = read_all([tmp_path / "s.ashlar"])
    accused = {d.machine for d in analyse(experiment, runs).machines.disagreements if d.metric == "cpu_s"}
    assert accused == {"liar"}
    said = json.loads((tmp_path / "s.json").read_text())
    assert any("liar" in w and "disagrees" in w for w in said["warnings"])


def begun(ashlar, tmp_path, address, program, blocks="40", patience_s=300.0):
    """A comparison that runs in the background, in the folder of `ashlar`. `patience_s` is how long it waits for machines that are all gone."""
    patient = f"from ashlar_lab import cli; from ashlar_lab.measure.cluster import session; session._RETURN_S = {patience_s}; cli.main()"
    return subprocess.Popen([sys.executable, "-c", patient, *PAIR, "--blocks", blocks, "--on", address, *program], cwd=tmp_path,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            # A shell may have made this test's own process deaf to SIGINT, as it does for background jobs.
                            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler))


def wait_for_runs(path, count, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if path.exists():
            with Store.open(path) as store:
                if len(store.runs("block >= 0")) >= count:
                    return
        time.sleep(0.05)
    raise AssertionError(f"{count} runs did not come within {seconds} s")


def test_a_worker_that_dies_loses_its_block_only_and_it_is_run_again(ashlar, tmp_path, machines, program):
    machines.worker("stays")
    victim = machines.worker("dies")
    machines.wait(2)
    process = begun(ashlar, tmp_path, machines.address, program, blocks="9")
    wait_for_runs(tmp_path / "s.ashlar", 9)
    with Store.open(tmp_path / "s.ashlar") as store:
        before = {b for b, (machine, n) in store.blocks().items() if n == 3}
    victim.kill()
    out, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert "dies is gone" in errors
    _, _, runs = read_all([tmp_path / "s.ashlar"])
    on = whole_blocks(runs)
    assert sorted(on) == list(range(9)) and before <= set(on)
    assert "stays" in on.values()


def test_when_every_worker_is_gone_the_run_ends_and_says_how_to_go_on(ashlar, tmp_path, machines, program, monkeypatch):
    """Nobody looks at a pipe and presses Ctrl-C."""
    victim = machines.worker("only")
    machines.wait(1)
    process = begun(ashlar, tmp_path, machines.address, program, patience_s=1.0)
    wait_for_runs(tmp_path / "s.ashlar", 4)
    victim.kill()
    out, errors = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "only is gone" in errors and "no machine is left; waiting 1 s for one" in errors
    assert f"no machine is left, and none came within 1 s; what was measured is kept. Go on with: ashlar-lab compare --resume s.ashlar --on {machines.address}\n" in errors
    assert (tmp_path / "s.json").exists()


def test_local_workers_that_are_gone_are_not_waited_for(ashlar, tmp_path, program):
    process = begun(ashlar, tmp_path, "local:1", program)
    wait_for_runs(tmp_path / "s.ashlar", 4)
    for worker in children_of(process.pid, "dask_worker"):
        os.kill(worker, signal.SIGKILL)
    out, errors = process.communicate(timeout=60)
    assert process.returncode == 2 and "no machine is left; what was measured is kept" in errors


def test_a_scheduler_that_is_gone_ends_the_run_in_one_line(ashlar, tmp_path, machines, program):
    machines.worker("only")
    machines.wait(1)
    process = begun(ashlar, tmp_path, machines.address, program)
    wait_for_runs(tmp_path / "s.ashlar", 4)
    machines.scheduler.kill()
    out, errors = process.communicate(timeout=90)
    assert process.returncode == 2, errors
    assert "Traceback" not in errors and "distributed" not in errors and f"the scheduler at {machines.address} is gone; what was measured is kept" in errors
    assert (tmp_path / "s.json").exists()


def children_of(pid, command):
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if int((folder / "stat").read_text().rpartition(")")[2].split()[1]) == pid and command.encode() in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
    return found


def listeners(pids):
    """The addresses on which these processes listen, in hexadecimal as the kernel tells them."""
    sockets = set()
    for pid in pids:
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                sockets.add(os.readlink(entry).removeprefix("socket:[").removesuffix("]"))
    rows = [line.split() for table in ("tcp", "tcp6") for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]]
    return {row[1].partition(":")[0] for row in rows if row[3] == "0A" and row[9] in sockets}


def test_everything_that_is_started_here_listens_on_loopback_alone():
    """A worker runs what it is sent, and its dashboard tells what it does."""
    from ashlar_lab.measure.cluster.engine import Cluster

    with Cluster("local:2") as cluster:
        Machines._wait_for(lambda: {2: True}[len(cluster.alive())])
        workers = children_of(os.getpid(), "dask_worker")
        assert len(workers) == 2
        assert listeners([os.getpid(), *workers]) == {"0100007F"}, "127.0.0.1"
        assert all(listeners([worker]) for worker in workers)


def test_a_connection_that_has_closed_itself_is_a_scheduler_that_is_gone():
    """Dask then fails in whatever it happens to look at, an attribute of nothing among it."""
    from ashlar_lab.errors import Unfinished
    from ashlar_lab.measure.cluster import courier
    from ashlar_lab.measure.cluster.engine import Cluster, Worker

    with Cluster("local:1") as cluster:
        Machines._wait_for(lambda: {1: True}[len(cluster.alive())])
        address = next(iter(cluster.alive()))
        cluster._client.close()
        for ask in (cluster.alive, lambda: cluster.call(courier.facts, workers=[address]), lambda: cluster.start("t", Worker(address, "m", "k"), "s", "/", "{}")):
            with pytest.raises(Unfinished, match="the scheduler at local:1 is gone"):
                ask()


@pytest.fixture
def certificate(tmp_path):
    """A certificate that is its own authority, and its key, as options of Dask."""
    if not shutil.which("openssl"):
        pytest.skip("openssl makes the certificates of this test, and is not installed")

    def made(name):
        ca, key = tmp_path / f"{name}.pem", tmp_path / f"{name}.key"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}", "-keyout", key, "-out", ca],
                       check=True, capture_output=True)
        return ("--tls-ca-file", str(ca), "--tls-cert", str(ca), "--tls-key", str(key))
    return made


def test_a_cluster_with_tls_takes_those_with_its_certificate_only(ashlar, tmp_path, certificate, program):
    own, other = certificate("own"), certificate("other")
    folder = tmp_path / "machines"
    folder.mkdir()
    machines = Machines(folder, *own)
    try:
        assert machines.address.startswith("tls://")
        machines.worker("guarded")
        machines.wait(1, security=distributed.Security(tls_ca_file=own[1], tls_client_cert=own[3], tls_client_key=own[5]))
        done = ashlar(*PAIR, "--blocks", "1", "--on", machines.address, *own, *program)
        assert done.returncode == 0, done.stderr
        assert "guarded takes part" in done.stderr
        for options, complaint in (((), "needs --tls-ca-file, --tls-cert and --tls-key"), (other, "no Dask scheduler answers at"),
                                   ((*own[:4], "--tls-key", other[5]), "cannot be used"), ((*own[:4], "--tls-key", "/no/such"), "/no/such cannot be used: No such file")):
            refused = ashlar(*PAIR[:-4], "--store", "t.ashlar", "--blocks", "1", "--on", machines.address, *options, *program)
            assert refused.returncode == 2 and complaint in refused.stderr and refused.stderr.count("\n") == 1, refused.stderr
            assert not (tmp_path / "t.ashlar").exists()
        plain = ashlar(*PAIR[:-4], "--store", "t.ashlar", "--blocks", "1", "--on", machines.address.replace("tls", "tcp"), *program)
        assert plain.returncode == 2 and plain.stderr.count("\n") == 1, plain.stderr
    finally:
        machines.close()


@pytest.mark.parametrize("address", ["tcp://192.0.2.1:8786", "ws://192.0.2.1:8786", "ucx://192.0.2.1:8786", "tcp://[2001:db8::1]:8786", "tcp://0.0.0.0:8786",
                                     "tcp://127.0.0.1.example.invalid:8786"])
def test_an_address_beyond_loopback_is_refused_without_tls(ashlar, tmp_path, address):
    done = ashlar(*PAIR, "--blocks", "1", "--on", address, "--", "sleep", "0.06")
    assert done.returncode == 2 and "the connection is not encrypted" in done.stderr and "tls://" in done.stderr and done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "tcp://localhost:1", "tcp://[::1]:1"])
def test_a_tunnel_ends_on_loopback(address):
    from ashlar_lab.measure.cluster.engine import check_address

    check_address(address)


def test_a_worker_beyond_loopback_without_tls_takes_no_part():
    from ashlar_lab.measure.cluster.engine import Cluster

    cluster = object.__new__(Cluster)
    cluster.call = lambda function, *arguments, workers: {w: {"host": w, "kernel": w, "system": "Linux", "architecture": "", "python": list(sys.version_info[:2])} for w in workers}
    alive = {"tcp://127.0.0.1:1": ("here", {"ashlar": 1}), "tcp://192.0.2.7:1": ("there", {"ashlar": 1}), "tls://192.0.2.8:1": ("guarded", {"ashlar": 1})}
    found, turned_away = cluster.measuring(alive)
    assert {w.machine for w in found} == {"here", "guarded"}
    assert list(turned_away) == ["tcp://192.0.2.7:1"] and "not encrypted" in turned_away["tcp://192.0.2.7:1"]


def test_ctrl_c_keeps_what_came_and_resume_goes_on_on_other_machines(ashlar, tmp_path, machines, program):
    machines.worker("first")
    machines.wait(1)
    process = begun(ashlar, tmp_path, machines.address, program)
    wait_for_runs(tmp_path / "s.ashlar", 7)
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=60)
    assert process.returncode == 130 and "--resume s.ashlar --on tcp://" in errors
    _, _, kept = read_all([tmp_path / "s.ashlar"])
    assert len([r for r in kept if r.block >= 0]) >= 7 and (tmp_path / "s.json").exists()
    assert subprocess.run(["pgrep", "-f", str(machines.folder / "first" / "cache")], capture_output=True).returncode == 1, "nothing runs on"
    elsewhere = ashlar("compare", "--resume", "s.ashlar", "--blocks", "6", "--on", "local:2", "--form", "json")
    assert elsewhere.returncode == 0, elsewhere.stderr
    _, machine, runs = read_all([tmp_path / "s.ashlar"])
    on = whole_blocks(runs)
    assert sorted(on)[:6] == list(range(6))
    assert set(list(on.values())[:6]) & {"first"} and set(on.values()) - {"first"}
    for block in range(6):
        if on[block] == "first":
            assert [r for r in runs if r.block == block] == [r for r in kept if r.block == block], "what came is not run again"


def test_a_store_of_this_machine_goes_on_with_others_and_not_by_mistake_alone(ashlar, tmp_path, program):
    assert ashlar(*PAIR, "--blocks", "2", *program).returncode == 0
    assert ashlar("compare", "--resume", "s.ashlar", "--blocks", "5", "--on", "local:2", "--form", "json").returncode == 0
    _, machine, runs = read_all([tmp_path / "s.ashlar"])
    host = os.uname().nodename
    on = whole_blocks(runs)
    assert len(on) == 5 and on[0] == on[1] == host and set(on.values()) <= {host, f"{host}-1", f"{host}-2"}
    alone = ashlar("compare", "--resume", "s.ashlar", "--blocks", "6")
    assert alone.returncode == 2 and "go on with --on" in alone.stderr and alone.stderr.count("\n") == 1


def test_an_input_that_changed_is_not_resumed_with(ashlar, tmp_path, program):
    assert ashlar(*PAIR, "--blocks", "1", "--on", "local:1", *program).returncode == 0
    (tmp_path / "input").write_text("something else\n")
    done = ashlar("compare", "--resume", "s.ashlar", "--blocks", "2", "--on", "local:1")
    assert done.returncode == 2 and "input has changed since" in done.stderr and done.stderr.count("\n") == 1


def test_a_machine_without_what_must_be_there_takes_no_part(ashlar, tmp_path, machines, program):
    (tmp_path / "bin").mkdir()
    tool = tmp_path / "bin" / "only-here"
    tool.write_text(f"#!{PYTHON}\nprint(sum(range(20000000)))\n")
    tool.chmod(0o755)
    machines.worker("bare")
    machines.wait(1)
    done = ashlar(*PAIR, "--blocks", "1", "--on", machines.address, "--", "only-here", PATH=f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    assert done.returncode == 2 and "only-here is not there; install it, or --ship it" in done.stderr
    assert not (tmp_path / "s.ashlar").exists()


def test_a_baseline_that_fails_there_is_told_in_one_line(ashlar, tmp_path):
    done = ashlar(*PAIR, "--blocks", "1", "--on", "local:1", "--", PYTHON, "-c", "import sys; print('no such luck', file=sys.stderr); sys.exit(3)")
    assert done.returncode == 2 and "exit status 3" in done.stderr and "no such luck" in done.stderr
    assert not (tmp_path / "s.ashlar").exists()


@pytest.mark.parametrize(("arguments", "complaint"), [
    (("--on", "tcp://127.0.0.1:1"), "no Dask scheduler answers at tcp://127.0.0.1:1"),
    (("--on", "nonsense"), "--on nonsense is no address"),
    (("--on", "local:0"), "names no number of workers"),
    (("--on", "local:1", "--ship", "/no/such"), "--ship /no/such: there is no such file or folder"),
    (("--on", "local:1", "--there", "/no/such"), "--there /no/such"),
    (("--ship", "x"), "add --on SCHEDULER"),
    (("--tls-cert", "x"), "add --on tls://SCHEDULER"),
    (("--on", "local:1", "--tls-cert", "x"), "--tls-cert belongs to an address such as tls://host:8786"),
])
def test_bad_input_gets_one_line_and_leaves_nothing(ashlar, tmp_path, arguments, complaint):
    done = ashlar(*PAIR, *arguments, "--", "sleep", "0.06")
    assert done.returncode == 2 and complaint in done.stderr and done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_scheduler_without_workers_says_how_to_start_one(ashlar, tmp_path, machines, monkeypatch):
    from ashlar_lab.errors import BadInput
    from ashlar_lab.experiment import command_line
    from ashlar_lab.experiment.model import Stop
    from ashlar_lab.measure.cluster import session

    monkeypatch.setattr(session, "_PATIENCE_S", 1.0)
    experiment = command_line.build(["glibc"], [], ["sleep", "0.06"], name=None, baseline=None, stop=Stop(1, 1))
    with pytest.raises(BadInput, match="the scheduler has no worker; start some with 'dask worker"):
        session.measure_on(machines.address, experiment, tmp_path / "s.ashlar", quiet=True)
    assert not (tmp_path / "s.ashlar").exists()


def test_the_numbers_are_finite(ashlar, tmp_path, program):
    assert ashlar(*PAIR, "--blocks", "4", "--on", "local:2", *program).returncode == 0
    found = json.loads((tmp_path / "s.json").read_text())["analysis"]
    assert all(math.isfinite(r["ratio"]["value"]) for r in found["ratios"])


class FakeCluster:
    """A cluster that does what it is told when it is told: the session's book-keeping without processes or clocks."""

    def __init__(self):
        import queue

        self.messages, self.started, self.workers = queue.Queue(), {}, {}
        self.expected, self.local = 1, False

    def alive(self):
        return {address: (address, {"ashlar": 1}) for address in self.workers}

    def measuring(self, alive):
        from ashlar_lab.measure.cluster.engine import Worker

        return [Worker(a, a, a) for a in sorted(alive)], {}

    def send(self, parcel, workers, on_sent):
        return {}

    def call(self, function, *arguments, workers):
        return {w: {"digests_of": {}, "lay_out": f"/root-{w}"}.get(function.__name__) for w in workers}

    def start(self, task, worker, session, root, request):
        self.started[task] = (worker.address, json.loads(request))

    def forget(self, task):
        self.started.pop(task, None)


@pytest.fixture
def fake_session(tmp_path):
    from ashlar_lab.experiment import command_line
    from ashlar_lab.experiment.model import Stop
    from ashlar_lab.measure.cluster.parcel import Parcel
    from ashlar_lab.measure.cluster.progress import FleetProgress
    from ashlar_lab.measure.cluster.session import _Session

    experiment = command_line.build(["a=env:X=1", "b=env:X=2"], [], ["true"], name=None, baseline=None, stop=Stop(4, 4))
    parcel = Parcel(experiment, places={os.getcwd(): "work"})
    cluster = FakeCluster()
    session = _Session(experiment, parcel, cluster, None, tmp_path / "s.ashlar", FleetProgress(experiment, quiet=True))
    yield session, cluster
    session.close()


def do_some(session, cluster, address, runs=None, end=True):
    """Let one worker say the results of its task, all or the first `runs`."""
    import zlib

    from conftest import make_run

    from ashlar_lab.measure.cluster.engine import Ended, Said

    task, (_, request) = next((t, started) for t, started in cluster.started.items() if started[0] == address)
    if request["do"] == "join":
        lines = [{"machine": {"cpu": "x"}}, {"joined": True}]
    else:
        order = session.experiment.order(request["block"])
        made = []
        for p in request["positions"]:
            arm = order[p]
            made.append(dataclasses.replace(make_run(request["block"], arm.program, arm.variant, arm.value, 1.0, 1.0, arm.role), position=p))
        lines = [{"run": run.to_json()} for run in made[:runs]]
    for line in lines:
        cluster.messages.put(Said(task, zlib.compress(json.dumps(line).encode())))
    if end:
        cluster.messages.put(Ended(task, len(lines), 0, ""))
    session._listen()


def give_work(session):
    for machine in list(session.machines.values()):
        session._give_work(machine)


@pytest.mark.parametrize("came", [0, 2, 3], ids=["nothing came", "a part came", "all came but its end"])
def test_every_block_becomes_whole_whenever_a_machine_is_lost(fake_session, came):
    session, cluster = fake_session
    cluster.workers = {"one": 1, "two": 1}
    session._look()
    give_work(session)
    do_some(session, cluster, "one")
    give_work(session)
    do_some(session, cluster, "two")
    give_work(session)
    do_some(session, cluster, "one")  # block 0 is whole
    give_work(session)
    do_some(session, cluster, "two", runs=came, end=False)
    give_work(session)
    assert len(session.machines) == 2
    do_some(session, cluster, "one")
    give_work(session)
    del cluster.workers["two"]
    session._look()
    for _ in range(8):
        give_work(session)
        if cluster.started:
            do_some(session, cluster, "one")
    assert session._finished()
    found = session.store.blocks()
    assert {b: n for b, (_, n) in found.items()} == {0: 3, 1: 3, 2: 3, 3: 3}
    assert found[1][0] == ("two" if came == 3 else "one")


def test_a_run_that_has_everything_ends_although_every_machine_is_gone(fake_session):
    session, cluster = fake_session
    cluster.workers = {"one": 1}
    session._look()
    give_work(session)
    for _ in range(5):
        do_some(session, cluster, "one")
        give_work(session)
    del cluster.workers["one"]
    session._look()
    assert not session.machines and session._finished()
