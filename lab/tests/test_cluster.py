"""Real schedulers and workers on loopback: a slow machine, a lying one, a lost one, an interrupt, and going on elsewhere."""

import contextlib
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
from conftest import PYTHON, make_run

from ashlar_lab.fit.analysis import analyse
from ashlar_lab.store.database import Store, read_all

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

    def __init__(self, forks, folder, *options):
        self.forks, self.folder, self.processes, self.options = forks, folder, [], options
        self.file = folder / "scheduler.json"
        self.scheduler = self._start("scheduler", "--host", "tls://127.0.0.1" if options else "127.0.0.1", "--port", "0", "--no-dashboard",
                                     "--scheduler-file", str(self.file), *options)
        self.address = self._wait_for(lambda: json.loads(self.file.read_text())["address"])

    def _start(self, program, *arguments, **environment):
        process = self.forks.start(program, arguments, self.folder, environment={**os.environ, **environment})
        self.processes.append(process)
        return process

    def worker(self, name, **environment):
        """A worker that measures as the machine `name`, whose cache is its own."""
        return self._start("worker", self.address, "--no-nanny", "--nthreads", "1", "--no-dashboard", "--name", name, "--resources",
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
            process.end()


@pytest.fixture
def machines(tmp_path, forks):
    folder = tmp_path / "machines"
    folder.mkdir()
    found = Machines(forks, folder)
    yield found
    found.close()


@pytest.fixture
def program(tmp_path):
    """A command whose program and input lie beside each other, as files that must travel."""
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "input").write_text("the same everywhere\n")
    return ("--", PYTHON, "program.py", "input")


PAIR = ("compare", "-v", "old=env:KIND=old", "-v", "new=env:KIND=new", "--store", "s.ashlar", "--form", "json")


def blocks_of(store):
    """Block → (machine, runs)."""
    return {b: (m, n) for b, m, n in store._connection.execute("SELECT block, max(machine), count(*) FROM run WHERE block >= 0 GROUP BY block")}


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
    assert [p for name in ("quick", "slow") for p in (machines.folder / name).rglob("ashlar-*")] == [], "what travelled is tidied away"


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
        before = {b for b, (machine, n) in blocks_of(store).items() if n == 3}
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
    process = begun(ashlar, tmp_path, machines.address, ("--ship", "input", "--there", PYTHON, *program), patience_s=1.0)
    wait_for_runs(tmp_path / "s.ashlar", 4)
    victim.kill()
    out, errors = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "only is gone" in errors and "no machine is left; waiting 1 s for one" in errors
    assert f"no machine is left, and none came within 1 s; what was measured is kept. Go on with: ashlar-lab compare --resume s.ashlar --on {machines.address} --ship input --there {PYTHON}\n" in errors
    assert (tmp_path / "s.json").exists()


def test_a_worker_that_dies_in_the_middle_of_a_block_leaves_nothing_running(ashlar, tmp_path, machines, program):
    victim = machines.worker("dies", SLOW="4000")
    machines.wait(1)
    process = begun(ashlar, tmp_path, machines.address, program, blocks="2")
    left = agent_and_launcher(victim.pid)
    victim.kill()
    Machines._wait_for(lambda: {False: True}[any(Path(f"/proc/{process_id}").exists() for process_id in left)])
    machines.worker("comes")
    out, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert set(whole_blocks(read_all([tmp_path / "s.ashlar"])[2]).values()) == {"comes"}, "and one that comes later has the files"


def test_the_process_of_a_block_that_is_killed_is_started_again(ashlar, tmp_path, program):
    process = begun(ashlar, tmp_path, "local:1", program, blocks="5")
    wait_for_runs(tmp_path / "s.ashlar", 4)
    os.kill(agent_and_launcher(process.pid)[0], signal.SIGKILL)
    out, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert sorted(whole_blocks(read_all([tmp_path / "s.ashlar"])[2])) == list(range(5))


def test_a_block_whose_process_dies_every_time_ends_the_run_in_one_line(ashlar, tmp_path):
    """As where a machine has too little memory for the program, and the kernel ends all of it. The first and the second run are check runs."""
    (tmp_path / "program.py").write_text("""
import os, signal, sys
with open("count", "a+") as count:
    count.seek(0)
    before = len(count.read())
    count.write("x")
if before >= 2:
    launcher = os.getppid()
    os.kill(int(open(f"/proc/{launcher}/stat").read().rpartition(")")[2].split()[1]), signal.SIGKILL)
print(sum(range(5000000)))
""")
    done = ashlar(*PAIR, "--blocks", "2", "--on", "local:1", "--", PYTHON, "program.py")
    assert done.returncode == 2, done.stderr
    assert "a block could not be measured: the lab's process on " in done.stderr and "ended with status -9; what was measured is kept" in done.stderr
    assert "Traceback" not in done.stderr and done.stderr.count("\n") == 2, "who took part, and why it ended"


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


def agent_and_launcher(worker):
    """The processes of the block that a worker measures now."""
    agent = Machines._wait_for(lambda: dict(enumerate(children_of(worker, "cluster.agent")))[0])
    return agent, Machines._wait_for(lambda: dict(enumerate(children_of(agent, "launcher")))[0])


def listeners(pids):
    """The addresses on which these processes listen, in hexadecimal as the kernel tells them."""
    sockets = set()
    for pid in pids:
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                sockets.add(os.readlink(entry).removeprefix("socket:[").removesuffix("]"))
    rows = [line.split() for table in ("tcp", "tcp6") for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]]
    return {row[1].partition(":")[0] for row in rows if row[3] == "0A" and row[9] in sockets}


def test_what_is_started_here_listens_on_loopback_alone():
    """A worker runs what it is sent, and its dashboard tells what it does."""
    from ashlar_lab.measure.cluster.engine import Cluster

    before = listeners([os.getpid()])
    with Cluster("local:2") as cluster:
        assert len(cluster.workers()) == 2
        assert all(address.startswith("inproc://") for address in cluster.workers()), "nobody but this process reaches a worker"
        assert listeners([os.getpid()]) - before == {"0100007F"}, "what Dask says of itself over HTTP, on 127.0.0.1"


def test_a_connection_that_has_closed_itself_is_a_scheduler_that_is_gone():
    """Dask then fails in whatever it happens to look at, an attribute of nothing among it."""
    from ashlar_lab.errors import Unfinished
    from ashlar_lab.measure.cluster.engine import Cluster

    with Cluster("local:1") as cluster:
        cluster._client.close()
        for ask in (cluster.workers, lambda: cluster.submit(0, {})):
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


def test_a_cluster_with_tls_takes_those_with_its_certificate_only(ashlar, tmp_path, forks, certificate, program):
    own, other = certificate("own"), certificate("other")
    folder = tmp_path / "machines"
    folder.mkdir()
    machines = Machines(forks, folder, *own)
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
    from ashlar_lab.measure.cluster.security import check_address

    check_address(address)


def test_a_worker_beyond_loopback_without_tls_ends_the_run_before_anything_is_sent():
    """The scheduler may be behind a tunnel and its workers not."""
    from ashlar.errors import BadInput
    from ashlar_lab.measure.cluster.engine import Cluster

    class Scheduler:
        found = {"tcp://127.0.0.1:1": ("here", 1), "tls://192.0.2.8:1": ("guarded", 1)}

        def run_on_scheduler(self, _):
            return self.found

        def get_versions(self):
            return {"scheduler": {"host": {"python": sys.version.split()[0]}}, "workers": {}}

        def register_plugin(self, plugin):
            raise AssertionError("the files were sent")

    cluster = Cluster("tcp://127.0.0.1:8786")
    cluster._client = Scheduler()
    assert cluster.workers() == Scheduler.found
    Scheduler.found["tcp://192.0.2.7:1"] = ("there", 1)
    with pytest.raises(BadInput, match="the worker there: 192.0.2.7 is not on this machine and the connection is not encrypted"):
        cluster.equip(None)


def test_ctrl_c_keeps_what_came_and_resume_goes_on_on_other_machines(ashlar, tmp_path, machines, program):
    machines.worker("first")
    machines.wait(1)
    # So many blocks that a busy machine has not done them all when the signal comes.
    process = begun(ashlar, tmp_path, machines.address, program, blocks="400")
    wait_for_runs(tmp_path / "s.ashlar", 7)
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=60)
    assert process.returncode == 130 and "--resume s.ashlar --on tcp://" in errors
    _, _, kept = read_all([tmp_path / "s.ashlar"])
    assert len([r for r in kept if r.block >= 0]) >= 7 and (tmp_path / "s.json").exists()
    assert subprocess.run(["pgrep", "-f", str(machines.folder / "first" / ".*" / "ashlar-")], capture_output=True).returncode == 1, "nothing runs on"
    elsewhere = ashlar("compare", "--resume", "s.ashlar", "--blocks", "6", "--on", "local:2", "--form", "json")
    assert elsewhere.returncode == 0, elsewhere.stderr
    _, machine, runs = read_all([tmp_path / "s.ashlar"])
    on = whole_blocks(runs)
    assert sorted(on)[:6] == list(range(6))
    assert set(list(on.values())[:6]) & {"first"} and set(on.values()) - {"first"}
    for block in range(6):
        if on[block] == "first":
            assert [r for r in runs if r.block == block] == [r for r in kept if r.block == block], "what came is not run again"


def test_ctrl_c_ends_a_run_that_would_take_long_on_another_machine(ashlar, tmp_path, machines, program):
    worker = machines.worker("slow", SLOW="4000")
    machines.wait(1)
    process = begun(ashlar, tmp_path, machines.address, program)
    agent, launcher = agent_and_launcher(worker.pid)
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=40)
    assert process.returncode == 130 and "interrupted before the first block; nothing was written" in errors
    assert not Path(f"/proc/{agent}").exists() and not Path(f"/proc/{launcher}").exists() and not (tmp_path / "s.ashlar").exists()


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


def test_an_input_that_changed_after_other_machines_joined_is_not_resumed_with(ashlar, tmp_path, program):
    assert ashlar(*PAIR, "--blocks", "1", *program).returncode == 0
    assert ashlar("compare", "--resume", "s.ashlar", "--blocks", "2", "--on", "local:1").returncode == 0
    (tmp_path / "input").write_text("something else\n")
    done = ashlar("compare", "--resume", "s.ashlar", "--blocks", "3", "--on", "local:1")
    assert done.returncode == 2 and "input has changed since" in done.stderr and done.stderr.count("\n") == 1


def test_what_was_shipped_is_shipped_again_or_missed(ashlar, tmp_path, program):
    """Nothing in the command names it."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "more").write_text("more\n")
    assert ashlar(*PAIR, "--blocks", "1", "--on", "local:1", "--ship", "data/", *program).returncode == 0
    resumed = ("compare", "--resume", "s.ashlar", "--blocks", "2", "--on", "local:1")
    done = ashlar(*resumed)
    assert done.returncode == 2 and "data/more was sent or looked for when s.ashlar was begun, and nothing names it now; name it by --ship" in done.stderr
    assert ashlar(*resumed, "--ship", "data").returncode == 0


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
    after = ashlar(*PAIR, "--blocks", "1", "--on", machines.address, *program)
    assert after.returncode == 0 and "bare takes part" in after.stderr, "it took no part in that comparison only"


def test_what_travels_lies_under_its_own_path_and_runs_are_told_with_the_paths_of_here(ashlar, tmp_path):
    """An absolute path, one behind an option, one in the environment, one beside the folder, and one that only --ship knows."""
    (tmp_path / "data" / "deep").mkdir(parents=True)
    (tmp_path / "data" / "deep" / "shipped").write_text("shipped\n")
    for name in ("plain", "option", "variable"):
        (tmp_path / name).write_text(f"{name}\n")
    (tmp_path / "tool").write_text(f"""#!{PYTHON}
import os, sys
paths = [sys.argv[1], sys.argv[2][2:], os.environ["FILE"], "data/deep/shipped", os.path.join(sys.argv[3], "..", "plain")]
assert all(os.path.realpath(p).startswith(os.path.dirname(os.getcwd())) for p in paths) and "ashlar-dask" in os.getcwd()
print("".join(open(p).read() for p in paths), sum(range(5000000)))
""")
    (tmp_path / "tool").chmod(0o755)
    command = ("./tool", str(tmp_path / "plain"), f"-I{tmp_path / 'option'}", "data")
    done = ashlar("compare", "-v", f"a=env:FILE={tmp_path / 'variable'}", "-v", "b=env:FILE=variable", "--store", "s.ashlar", "--form", "json", "--blocks", "1",
                  "--on", "local:1", "--ship", "data", "--", *command)
    assert done.returncode == 0, done.stderr
    with Store.open(tmp_path / "s.ashlar") as store:
        run = next(r for r in store.runs("block >= 0") if r.variant == "a")
        assert run.state == "ok" and run.command == command and run.environment["FILE"] == str(tmp_path / "variable")
        assert {str(tmp_path / n) for n in ("tool", "plain", "option", "variable", "data/deep/shipped")} <= set(store.files())


def test_more_than_dask_sends_at_once_is_refused(ashlar, tmp_path):
    with (tmp_path / "large").open("wb") as file:
        file.truncate((1 << 30) + 1)
    done = ashlar(*PAIR, "--blocks", "1", "--on", "local:1", "--", PYTHON, "large")
    assert done.returncode == 2 and "1.0 GiB would travel" in done.stderr and f"--there {tmp_path / 'large'}" in done.stderr and done.stderr.count("\n") == 1


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
    from ashlar.errors import BadInput
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
    _, _, runs = read_all([tmp_path / "s.ashlar"])
    # A count such as preemptions is 0 in some runs, and then there is no finite ratio.
    whole = {m for m in runs[0].metrics if all(r.metrics.get(m, 0) > 0 for r in runs)}
    assert {"wall_s", "cpu_s", "peak_mib", "minor_faults"} <= whole
    assert all(math.isfinite(r["ratio"]["value"]) for r in found["ratios"] if r["metric"] in whole)


class FakeCluster:
    """A cluster whose machines answer as told: the session's book-keeping without processes or clocks. `answers` are the machines that
    come back with the oldest block that is out; a name with a `!` refuses, a `-` before it is a machine that is lost instead."""

    def __init__(self, *answers):
        self.answers, self.there, self.running, self.most, self.given = list(answers), {"one": ("one", 1), "two": ("two", 1)}, {}, 0, []

    def equip(self, parcel):
        pass

    def workers(self):
        return dict(self.there)

    def submit(self, block, expected):
        self.given.append(block)
        self.running[len(self.given)] = block
        self.most = max(self.most, len(self.running))

    def finished(self, within_s):
        name = self.answers.pop(0)
        if name.startswith("-"):
            del self.there[name[1:]]
        else:
            block = self.running.pop(min(self.running))
            yield block, self.answer(name, block)

    def answer(self, name, block):
        if name.endswith("!"):
            self.there[name[:-1]] = (name[:-1], 0)
            return {"machine": name[:-1], "address": name[:-1], "refused": "it has not what it takes"}
        runs = [] if block is None else [{**vars(make_run(block, a.program, a.variant, a.value, 1.0, 1.0, a.role)), "position": p}
                                         for p, a in enumerate(self.experiment.order(block))]
        return {"machine": name, "address": name, "facts": {"cpu": "x"}, "checks": [], "runs": runs}


@pytest.fixture
def session_on(tmp_path):
    from ashlar_lab.experiment import command_line
    from ashlar_lab.experiment.model import Stop
    from ashlar_lab.measure.cluster.parcel import Parcel
    from ashlar_lab.measure.cluster.session import _Session
    from ashlar_lab.measure.progress import FleetProgress

    def made(cluster, store=None):
        cluster.experiment = experiment = command_line.build(["a=env:X=1", "b=env:X=2"], [], ["true"], name=None, baseline=None, stop=Stop(4, 4))
        return _Session(experiment, Parcel({}, b"", {}, {}), cluster, store, tmp_path / "s.ashlar", FleetProgress(experiment, quiet=True))
    return made


def test_the_first_machine_is_looked_at_before_any_block_and_each_then_has_one(session_on):
    cluster = FakeCluster("one", "one", "two", "two", "one")
    with session_on(cluster) as session:
        session.run()
        assert cluster.given == [None, 0, 1, 2, 3] and cluster.most == 2
        assert blocks_of(session.store) == {0: ("one", 3), 1: ("two", 3), 2: ("two", 3), 3: ("one", 3)}


def test_the_block_of_a_machine_that_takes_no_part_is_given_out_again(session_on):
    cluster = FakeCluster("one", "two!", "one", "one", "one", "one")
    with session_on(cluster) as session:
        session.run()
        assert sorted(cluster.given[1:]) == [0, 0, 1, 2, 3] and set(session.store.machines()) == {"one"}


def test_when_every_machine_has_refused_the_run_ends_with_the_reason(session_on):
    from ashlar_lab.errors import Unfinished

    with session_on(FakeCluster("one!", "two!")) as session, pytest.raises(Unfinished, match="no worker can measure; one: it has not what it takes"):
        session.run()


def test_workers_that_were_started_without_the_resource_are_told_of_it(session_on, monkeypatch):
    from ashlar_lab.errors import Unfinished
    from ashlar_lab.measure.cluster import session as sessions

    monkeypatch.setattr(sessions, "_PATIENCE_S", 0.0)
    cluster = FakeCluster()
    cluster.there = {"one": ("one", 0)}
    with session_on(cluster) as session, pytest.raises(Unfinished, match="none of the scheduler's 1 workers offers the resource ashlar; start some with"):
        session.run()
    assert not cluster.given


def test_a_run_that_has_everything_ends_although_every_machine_is_gone(session_on):
    cluster = FakeCluster("one", "one", "one", "one", "-two", "-one", "one")
    with session_on(cluster) as session:
        session.run()
        assert not cluster.there and len(blocks_of(session.store)) == 4


def test_two_workers_of_one_name_are_not_taken_for_one_machine(session_on):
    from ashlar_lab.errors import Unfinished

    cluster = FakeCluster("one", "one", "two")
    answer = cluster.answer
    cluster.answer = lambda name, block: {**answer(name, block), "machine": "host"}
    with session_on(cluster) as session, pytest.raises(Unfinished, match="two workers are both called host; start them with --name"):
        session.run()


def test_a_block_that_is_not_whole_in_the_store_is_measured_anew(session_on, tmp_path):
    from ashlar_lab.measure.cluster.session import _continued

    with session_on(FakeCluster("one", "one", "one", "one", "one")) as session:
        session.run()
    with Store.open(tmp_path / "s.ashlar") as store:
        store._connection.execute("DELETE FROM run WHERE block = 1 AND position = 0")
        store._connection.commit()
        store = _continued(store, session.experiment, session.parcel)
        again = FakeCluster("two")
        session_on(again, store).run()
        assert again.given == [1] and blocks_of(store)[1] == ("two", 3)
