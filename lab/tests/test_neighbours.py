"""What other processes do during a run is seen, named and said; what the measured program does is not taken for it."""

import subprocess
import sys
import time

from conftest import make_run, two_variants

from ashlar.processes import Stat
from ashlar_lab.fit.analysis import analyse
from ashlar_lab.measure import neighbours
from ashlar_lab.measure.neighbours import Look
from ashlar_lab.report import words

LAB = 10
BURN = "import time\nend = time.process_time() + 0.6\nwhile time.process_time() < end: pass"


def look(busy_s, own_s=0.0, stolen_s=0.0, **processes):
    """Processes are given as name=(pid, parent, own seconds, children's seconds)."""
    return Look(busy_s, stolen_s, own_s, {(pid, 1000 + pid): Stat(name, "S", parent, cpu, children, 1000 + pid) for name, (pid, parent, cpu, children) in processes.items()})


def test_the_labs_own_tree_is_not_among_the_others():
    before, after = look(100, own_s=5, ashlar=(LAB, 1, 5, 0)), look(103, own_s=8, ashlar=(LAB, 1, 5.1, 2.9))
    assert neighbours.between(before, after, LAB) == neighbours.Neighbours(0, 0, {})


def test_others_are_what_the_machine_did_and_the_lab_did_not():
    found = neighbours.between(look(100, own_s=5, stolen_s=1, cc1=(20, 1, 4, 0)), look(104, own_s=6.5, stolen_s=1.25, cc1=(20, 1, 6.4, 0)), LAB)
    assert found == neighbours.Neighbours(2.5, 0.25, {"cc1": 2.4})


def test_work_of_children_that_came_and_went_is_their_parents():
    found = neighbours.between(look(0, make=(20, 1, 0.1, 7)), look(3, make=(20, 1, 0.2, 9.5)), LAB)
    assert found.biggest == {"make": 2.6}


def test_what_a_child_did_before_is_not_charged_when_it_ends():
    before = look(0, make=(20, 1, 0, 0), cc1=(21, 20, 50, 0))
    found = neighbours.between(before, look(1, make=(20, 1, 0, 51)), LAB)
    assert found.biggest == {"make": 1.0}


def test_nor_is_what_a_whole_chain_did_before():
    before = look(0, sh=(20, 1, 0, 0), timeout=(21, 20, 0, 0), ruby=(22, 21, 30, 5))
    found = neighbours.between(before, look(1, sh=(20, 1, 0, 36)), LAB)
    assert found.biggest == {"sh": 1.0}


def test_orphans_are_not_called_by_the_name_of_the_first_process():
    found = neighbours.between(look(0, init=(1, 0, 1, 100)), look(5, init=(1, 0, 1, 105)), LAB)
    assert (found.cpu_s, found.biggest) == (5, {})


def test_a_process_that_reuses_a_number_is_another_process():
    before = Look(0, 0, 0, {(20, 1): Stat("old", "S", 1, 30, 0, 1)})
    after = Look(1, 0, 0, {(20, 2): Stat("new", "S", 1, 0.5, 0, 2)})
    assert neighbours.between(before, after, LAB).biggest == {"new": 0.5}


def test_a_machine_that_does_not_tell_is_no_failure(tmp_path):
    assert neighbours.look(tmp_path) is None
    assert neighbours.between(None, neighbours.look()) is None


def test_a_real_process_is_seen_and_named():
    """The stranger is a child of this test, but as it is not waited for before the second look it counts as another's."""
    before = neighbours.look()
    stranger = subprocess.Popen([sys.executable, "-c", f"{BURN}\ntime.sleep(60)"])
    try:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            after = neighbours.look()
            used = sum(p.cpu_s for (pid, _), p in after.processes.items() if pid == stranger.pid)
            if used >= 0.55:
                break
            time.sleep(0.05)
        found = neighbours.between(before, after)
    finally:
        stranger.kill()
        stranger.wait()
    assert used >= 0.55 and found.cpu_s >= 0.45


def disturbed(cores, runs=20, others=None):
    experiment = two_variants()
    made = [make_run(b, "p", v, None, 1.0, 50, metrics={"others_cpu_s": cores, "stolen_s": 0.0}, others=others or {}) for b in range(runs) for v in ("old", "new")]
    return words.warnings(experiment, made, analyse(experiment, made)), words.other_processes(made)


def test_a_disturbed_measurement_says_so_and_names_the_disturber():
    warnings, row = disturbed(0.8, others={"cc1": 0.5, "ruby": 0.3})
    (said,) = [w for w in warnings if "other processes" in w]
    assert "In 40 of 40 runs" in said and "0.8 cores" in said and "cc1 20 s, ruby 12 s" in said and "stop them" in said
    assert row == "kept 0.80 cores busy in the median run, 0.80 at most"


def test_a_quiet_measurement_says_that_too():
    warnings, row = disturbed(0.02)
    assert not [w for w in warnings if "other processes" in w] and row.startswith("kept 0.02 cores busy")


def test_disturbance_is_stored_with_every_run(tmp_path, ashlar):
    from ashlar_lab.store.database import read_all

    assert ashlar("compare", "-v", "a=command:sleep 0.1", "-v", "b=command:sleep 0.1", "--blocks", 1, "--store", "s.ashlar", "-q").returncode == 0
    assert all(r.metrics["others_cpu_s"] >= 0 and r.metrics["stolen_s"] >= 0 for r in read_all([tmp_path / "s.ashlar"])[2])
