"""The command as a person or a script meets it: messages, exit statuses, and nothing half-written."""

import contextlib
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import PYTHON, TWIN, VERBS, make_run, two_variants

from ashlar_lab.measure import machine
from ashlar_lab.store.database import Store, read_all

SLEEP = ("--", "sleep", "0.06")
PAIR = ("compare", "-v", "a=env:X=1", "-v", "b=env:X=2")


@pytest.mark.parametrize(("arguments", "complaint"), [
    (("compare", "-v", "glibcc", *SLEEP), "unknown variant 'glibcc'; did you mean glibc?"),
    (("compare", "-v", "glibc", "--", "/no/such/binary"), "cannot run '/no/such/binary'"),
    (("compare", "-v", "glibc", "--", "true"), "too soon to compare"),
    (("compare", "-v", "ocaml", "-k", "o=80", *SLEEP), "has one value (80)"),
    (("compare", "-v", "glibc", "--store", "/no/such/folder/x.ashlar", *SLEEP), "folder /no/such/folder of the store does not exist"),
    (("compare", "-v", "glibc", "--store", "/proc/x.ashlar", *SLEEP), "cannot write the store /proc/x.ashlar"),
    (("compare", "-v", "glibc", "--form", "docx", *SLEEP), "--form has 'docx'"),
    (("report", "s.ashlar", "--form", ""), "--form is empty; give some of html,md,csv,json,svg,png,record"),
    (("compare", "-v", "glibc", "--blocks", "0", *SLEEP), "blocks from 0 to 0"),
    (("compare", "-v", "glibc", "--precision", "0", *SLEEP), "precision = 0"),
    (("compare", "-v", "glibc", "--budget", "-1", *SLEEP), "budget = -1"),
    (("compare", "-v", "glibc", "--space", "weight", *SLEEP), "space = 'weight'"),
    (("compare", "-v", "glibc", "--baseline", "x", *SLEEP), "baseline 'x' is no variant"),
    (("compare", "-v", "glibc", "--", "sh", "-c", "echo my own words >&2; exit 4"), "exit status 4. It wrote: my own words"),
    (("compare", "-e", "nowhere.toml"), "cannot read the experiment file nowhere.toml"),
    (("compare", "--resume", "nowhere.ashlar"), "there is no store nowhere.ashlar"),
    (("report", "nowhere.ashlar"), "there is no store nowhere.ashlar"),
    (("diff", "nowhere.ashlar", "nowhere.ashlar"), "there is no store nowhere.ashlar"),
    (("mem", "--", "/no/such/binary"), "cannot run '/no/such/binary'"),
    (("compare", "-v", "glibc", "--output", "/no/such/folder/x", *SLEEP), "cannot write reports into /no/such/folder: there is no such folder"),
    (("compare", "-v", "glibc", "--blocks", "many", *SLEEP), "Invalid value for '--blocks'"),
    (("compare", "-v", "glibc", "--bloks", "3", *SLEEP), "No such option: --bloks"),
    (("compara",), "No such command 'compara'"),
    (("diff", "nowhere.ashlar"), "Missing argument 'second'"),
    (("overhead", "--blocks", "1"), "gives no interval"),
    (("overhead", "--duty", "0"), "--duty 0 is no share of a core"),
    (("overhead", "--sample-hz", "0"), "--sample-hz 0 is out of reach"),
])
def test_bad_input_gets_one_line_status_2_and_leaves_nothing(ashlar, tmp_path, arguments, complaint):
    done = ashlar(*arguments)
    assert done.returncode == 2
    assert complaint in done.stderr and done.stderr.count("\n") == 1 and done.stderr.startswith("ashlar: " if arguments[0] in VERBS else "ashlar-lab: ")
    assert list(tmp_path.iterdir()) == []


def test_help_of_every_verb_has_an_example(ashlar):
    for verb in ("compare", "init", "report", "diff", "ci", "mem", "overhead", "completion", "heap", "top", "shared", "boot", "retained"):
        assert f"{'ashlar' if verb in VERBS else 'ashlar-lab'} {verb} " in ashlar(verb, "--help").stdout


def test_both_programs_have_the_version_of_the_release():
    release = re.search(r'^version = "(.+)"$', (Path(__file__).parents[2] / "Cargo.toml").read_text(), re.MULTILINE)[1]
    for module, name in (("ashlar", "ashlar"), ("ashlar_lab", "ashlar-lab")):
        done = subprocess.run([sys.executable, "-m", module, "--version"], capture_output=True, text=True)
        assert (done.returncode, done.stdout, done.stderr) == (0, f"{name} {release}\n", "")


def test_the_built_in_variants_are_listed(ashlar):
    listed = ashlar("variants").stdout
    for name in ("glibc", "jemalloc", "mimalloc", "tcmalloc", "scudo", "tbbmalloc", "ocaml", "ruby", "go", "jvm", "node"):
        assert f"\n{name}:" in "\n" + listed


def test_a_comparison_writes_store_and_reports(ashlar, tmp_path):
    done = ashlar(*PAIR, "--blocks", "2", "--form", "html,md,csv,json,svg", *SLEEP)
    assert done.returncode == 0, done.stderr
    names = {p.name for p in tmp_path.iterdir()}
    assert {"sleep.ashlar", "sleep.html", "sleep.md", "sleep.csv", "sleep.json", "sleep-ratio-cpu_s.svg"} <= names
    assert "no difference" in done.stdout or "one block" in done.stdout or "of a's" in done.stdout
    assert not [n for n in names if n.startswith(".")]


def test_the_same_line_again_measures_anew_beside_what_was_there(ashlar, tmp_path):
    assert ashlar(*PAIR, "--blocks", "1", *SLEEP).returncode == 0
    files = {p: p.read_bytes() for p in tmp_path.iterdir()}
    again = ashlar(*PAIR, "--blocks", "1", *SLEEP)
    assert again.returncode == 0, again.stderr
    assert again.stderr == "sleep.ashlar is as it was; these runs are in sleep-2.ashlar. To compare: ashlar-lab diff sleep.ashlar sleep-2.ashlar\n"
    assert {p: p.read_bytes() for p in files} == files
    assert {p.name for p in tmp_path.iterdir()} - {p.name for p in files} == {f"sleep-2.{form}" for form in ("ashlar", "html", "md", "json")}
    assert ashlar("diff", "sleep.ashlar", "sleep-2.ashlar", "--threshold", "100").returncode == 0
    assert ashlar(*PAIR, "--blocks", "1", "-q", *SLEEP).stderr == "" and (tmp_path / "sleep-3.ashlar").exists()


def test_a_store_that_is_named_and_exists_is_neither_overwritten_nor_added_to(ashlar, tmp_path):
    assert ashlar(*PAIR, "--blocks", "1", "--store", "s.ashlar", *SLEEP).returncode == 0
    before = (tmp_path / "s.ashlar").read_bytes()
    again = ashlar(*PAIR, "--blocks", "1", "--store", "s.ashlar", *SLEEP)
    assert again.returncode == 2 and "--resume s.ashlar" in again.stderr and again.stderr.count("\n") == 1
    assert (tmp_path / "s.ashlar").read_bytes() == before


def test_an_experiment_that_is_written_again_is_the_same_or_refused(ashlar, tmp_path):
    line = ("init", *PAIR[1:], "--name", "kept", *SLEEP)
    assert ashlar(*line).returncode == 0
    assert ashlar(*line).returncode == 0
    with (tmp_path / "kept.toml").open("a") as file:
        file.write("# mine\n")
    again = ashlar(*line)
    assert again.returncode == 2 and "kept.toml exists and says something else" in again.stderr
    assert (tmp_path / "kept.toml").read_text().endswith("# mine\n")


def test_the_report_is_rebuilt_from_the_store_alone(ashlar, tmp_path):
    ashlar(*PAIR, "--blocks", "2", *SLEEP)
    first = (tmp_path / "sleep.html").read_text()
    (tmp_path / "sleep.html").unlink()
    assert ashlar("report", "sleep.ashlar", "-q").returncode == 0
    assert (tmp_path / "sleep.html").read_text() == first


def test_resume_runs_only_what_is_missing(ashlar, tmp_path):
    ashlar(*PAIR, "--blocks", "2", *SLEEP)
    before = read_all([tmp_path / "sleep.ashlar"])[2]
    assert ashlar("compare", "--resume", "sleep.ashlar", "--blocks", "4", "-q").returncode == 0
    after = read_all([tmp_path / "sleep.ashlar"])[2]
    assert [r for r in after if r.block < 2] == before
    assert sorted({r.block for r in after}) == [-1, 0, 1, 2, 3] and len(after) == 2 + 4 * 3


def test_resume_begins_a_block_that_is_not_whole_anew(ashlar, tmp_path):
    """The rest of it would be paired with runs of another hour."""
    ashlar(*PAIR, "--blocks", "2", *SLEEP)
    with contextlib.closing(sqlite3.connect(tmp_path / "sleep.ashlar")) as store, store:
        store.execute("DELETE FROM run WHERE block = 1 AND position = 2")
        store.execute("UPDATE run SET started = 'yesterday' WHERE block = 1")
    assert ashlar("compare", "--resume", "sleep.ashlar", "--blocks", "2", "-q").returncode == 0
    runs = read_all([tmp_path / "sleep.ashlar"])[2]
    assert len(runs) == 2 + 2 * 3 and "yesterday" not in {r.started for r in runs}


def test_another_command_of_the_same_name_is_not_offered_for_a_comparison(ashlar, tmp_path):
    assert ashlar(*PAIR, "--blocks", "1", *SLEEP).returncode == 0
    again = ashlar(*PAIR, "--blocks", "1", *SLEEP[:-1], "0.07")
    assert again.stderr == "sleep.ashlar is as it was; these runs are in sleep-2.ashlar.\n"


def test_a_store_that_is_not_whole_is_one_clear_line(ashlar, tmp_path):
    assert ashlar(*PAIR, "--blocks", "1", *SLEEP).returncode == 0
    whole = (tmp_path / "sleep.ashlar").read_bytes()
    (tmp_path / "sleep.ashlar").write_bytes(whole[:-4096] + 4096 * b"\xff")
    done = ashlar("report", "sleep.ashlar")
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "cannot be read" in done.stderr


def test_resume_on_another_machine_is_refused(ashlar, tmp_path):
    with Store.create(tmp_path / "s.ashlar", two_variants(), {**machine.describe(), "cpu": "another"}):
        pass
    done = ashlar("compare", "--resume", "s.ashlar")
    assert done.returncode == 2 and "the machines differ in cpu" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_keeps_every_finished_run_and_says_how_to_go_on(tmp_path, number):
    process = subprocess.Popen([sys.executable, "-m", "ashlar_lab", *PAIR, "--blocks", "200", "--", "sleep", "0.06"], cwd=tmp_path,
                               stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, start_new_session=True)
    store = tmp_path / "sleep.ashlar"
    for _ in range(600):
        if store.exists() and len(read_all([store])[2]) >= 6:
            break
        time.sleep(0.05)
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130 and "--resume sleep.ashlar" in said
    assert len(read_all([store])[2]) >= 6 and (tmp_path / "sleep.html").exists()


def test_an_interrupt_before_the_first_block_says_that_nothing_is_kept(tmp_path):
    process = subprocess.Popen([sys.executable, "-m", "ashlar_lab", *PAIR, "--", "sh", "-c", "touch started; sleep 60"], cwd=tmp_path,
                               stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, start_new_session=True)
    for _ in range(600):
        if (tmp_path / "started").exists():
            break
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130 and said == "ashlar-lab: interrupted before the first block; nothing was written\n"
    assert [p.name for p in tmp_path.iterdir()] == ["started"]


def stored(path, factor, baseline_factor=1.0, blocks=8):
    with Store.create(path, two_variants(), machine.describe()) as store:
        for block in range(blocks):
            wobble = 1 + 0.01 * (block % 3)
            store.add(*(make_run(block, "p", "old", None, baseline_factor * wobble, 100 + block % 2, role) for role in ("main", TWIN)))
            store.add(make_run(block, "p", "new", None, factor * wobble * (1 + 0.002 * (block % 2)), 100 + block % 2))
    return path


@pytest.mark.parametrize(("factor", "threshold", "status", "judged"), [
    (1.0, 0.05, 0, "within threshold"),
    (1.2, 0.05, 1, "worse"),
    (0.8, 0.05, 0, "better"),
    (1.2, 0.30, 0, "within threshold"),
    (1.05, 0.05, 0, "undecided"),  # the mean is at the threshold, the interval does not clear it
])
def test_diff_judges_by_the_interval(ashlar, tmp_path, factor, threshold, status, judged):
    stored(tmp_path / "a.ashlar", 1.0)
    stored(tmp_path / "b.ashlar", factor)
    done = ashlar("diff", "a.ashlar", "b.ashlar", "--threshold", threshold, "--metric", "cpu_s")
    assert done.returncode == status, done.stdout
    row = next(line for line in done.stdout.splitlines() if "new" in line)
    assert judged in row


def test_relative_diff_forgives_a_slower_day(ashlar, tmp_path):
    stored(tmp_path / "a.ashlar", 1.0)
    stored(tmp_path / "b.ashlar", 1.3, baseline_factor=1.3)
    assert ashlar("diff", "a.ashlar", "b.ashlar").returncode == 1
    assert ashlar("diff", "a.ashlar", "b.ashlar", "--relative").returncode == 0


def test_mem_reads_size_rss_pss_private_and_swap_without_the_commands_help(ashlar):
    done = ashlar("mem", "--json", "--", PYTHON, "-S", "-c", "x = b'x' * 40_000_000; y = len(x); del x; import os; os._exit(7)")
    assert done.returncode == 7, "the command's own exit status is passed on"
    found = json.loads(done.stdout)
    peak, end = found["at_peak"][0], found["at_exit"][0]
    assert end["hwm_kib"] > 40e6 / 1024 > end["private_kib"], "the block was given back before the end"
    assert set(end) >= {"size_kib", "rss_kib", "pss_kib", "private_kib", "swap_kib"}
    assert peak["size_kib"] >= peak["rss_kib"] >= peak["pss_kib"] >= peak["private_kib"] > 0


def test_mem_leaves_to_the_command_what_ctrl_c_does(tmp_path):
    code = ("import signal, sys, time\ndef ended(*_):\n    time.sleep(1)\n    sys.exit(3)\n"
            "signal.signal(signal.SIGINT, ended)\nprint('ready', flush=True)\ntime.sleep(60)")
    process = subprocess.Popen([sys.executable, "-m", "ashlar", "mem", "--", PYTHON, "-S", "-c", code], cwd=tmp_path, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stdout.readline() == "ready\n"
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    _, told = process.communicate(timeout=30)
    assert process.returncode == 3 and "\nat exit\n" in told


def test_mem_shows_the_tree_and_leaves_output_and_input_alone(tmp_path):
    done = subprocess.run([sys.executable, "-m", "ashlar", "mem", "--", "sh", "-c", "cat; sleep 0.3 & sleep 0.1"], input="through\n",
                          cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.stdout == "through\n"
    assert "at exit" in done.stderr and "sleep" in done.stderr and "total" in done.stderr and "Private" in done.stderr
    assert os.listdir(tmp_path) == []
