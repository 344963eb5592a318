"""Slow, crashing, forking, lying and hanging programs: each is recorded for what it is, none is dropped."""

import json
import re

import pytest
from conftest import PYTHON

from ashlar_lab.store.database import read_all

QUIET = ("--form", "json", "-q")


def experiment(tmp_path, good: str, other: str, **head) -> str:
    """Two variants, each a shell script; `head` goes into [experiment] and keys with `program_` into [[program]]."""
    program = {k.removeprefix("program_"): v for k, v in head.items() if k.startswith("program_")}
    settings = {"blocks": 2} | {k: v for k, v in head.items() if not k.startswith("program_")}

    def lines(table):
        return "\n".join(f"{k} = {json.dumps(v)}" for k, v in table.items())

    path = tmp_path / "e.toml"
    path.write_text(f"[experiment]\nname = 'e'\n{lines(settings)}\n[[program]]\nname = 'p'\n{lines(program)}\n"
                    f"[[variant]]\nname = 'good'\ncommand = ['sh', '-c', {json.dumps(good)}]\n"
                    f"[[variant]]\nname = 'other'\ncommand = ['sh', '-c', {json.dumps(other)}]\n")
    return str(path)


def states(tmp_path, variant):
    return [r.state for r in read_all([tmp_path / "e.ashlar"])[2] if r.variant == variant and r.block >= 0]


def report(tmp_path):
    return json.loads((tmp_path / "e.json").read_text())


def test_a_lying_program_is_fast_and_does_not_win(tmp_path, ashlar):
    done = ashlar("compare", "-e", experiment(tmp_path, "sleep 0.12; echo 42", "sleep 0.051; echo 41"), *QUIET)
    assert done.returncode == 0, done.stderr
    assert states(tmp_path, "good") == ["ok"] * 4 and states(tmp_path, "other") == ["wrong output"] * 2
    found = report(tmp_path)
    assert not found["analysis"]["ratios"], "a wrong answer has no time"
    assert any("wrong output" in w for w in found["warnings"])


def test_lines_that_may_differ_are_left_out_of_the_comparison(tmp_path, ashlar):
    path = experiment(tmp_path, "sleep 0.06; echo took 5; echo 42", "sleep 0.06; echo took 6; echo 42", program_ignore_lines=["^took"])
    assert ashlar("compare", "-e", path, *QUIET).returncode == 0
    assert states(tmp_path, "other") == ["ok"] * 2


def test_output_may_be_ignored_on_request(tmp_path, ashlar):
    path = experiment(tmp_path, "sleep 0.06; echo 1", "sleep 0.06; echo 2", program_output="ignore")
    assert ashlar("compare", "-e", path, *QUIET).returncode == 0
    assert states(tmp_path, "other") == ["ok"] * 2


def test_a_crashing_program_is_listed_with_its_last_words(tmp_path, ashlar):
    done = ashlar("compare", "-e", experiment(tmp_path, "sleep 0.06", "sleep 0.06; echo out of cheese >&2; kill -SEGV $$"), "--form", "json,html,md,csv")
    assert done.returncode == 0 and states(tmp_path, "other") == ["crashed"] * 2
    page = (tmp_path / "e.html").read_text()
    assert "SIGSEGV" in page and "out of cheese" in page
    assert (tmp_path / "e.csv").read_text().count(",crashed,") == 3  # two blocks and the check run


def test_a_program_that_fails_now_and_then_keeps_its_good_runs(tmp_path, ashlar):
    other = f"sleep 0.06; n=$(cat {tmp_path}/n 2>/dev/null || echo 0); echo $((n + 1)) > {tmp_path}/n; exit $((n == 2))"
    done = ashlar("compare", "-e", experiment(tmp_path, "sleep 0.06", other, blocks=4), *QUIET)
    assert done.returncode == 0 and states(tmp_path, "other") == ["ok", "crashed", "ok", "ok"]
    ratios = [r for r in report(tmp_path)["analysis"]["ratios"] if r["metric"] == "wall_s"]
    assert ratios[0]["ratio"]["n"] == 3


def test_a_hanging_program_is_killed_and_recorded(tmp_path, ashlar):
    done = ashlar("compare", "-e", experiment(tmp_path, "sleep 0.06", "sleep 100", program_timeout_s=0.3), *QUIET)
    assert done.returncode == 0 and states(tmp_path, "other") == ["timed out"] * 2


def test_a_slow_program_is_found_slower(tmp_path, ashlar):
    def loop(n):
        return f"{PYTHON} -S -c 'sum(range({n}))'"
    done = ashlar("compare", "-e", experiment(tmp_path, loop(5_000_000), loop(25_000_000), program_output="ignore", blocks=5), *QUIET)
    assert done.returncode == 0, done.stderr
    (ratio,) = [r["ratio"] for r in report(tmp_path)["analysis"]["ratios"] if r["metric"] == "cpu_s"]
    assert ratio["low"] > 1.5


def test_memory_of_a_forking_program_is_that_of_its_tree(tmp_path, ashlar):
    def forks(n):
        # All children are there at once, however busy the machine: the parent waits for each before it lets them go.
        code = (f"import os, time\nready, say = os.pipe()\nheld, hold = os.pipe()\nfor _ in range({n}):\n    if os.fork() == 0:\n"
                f"        x = b'x' * 20_000_000; os.close(hold); os.write(say, b'.'); os.read(held, 1); os._exit(0)\n"
                f"for _ in range({n}): os.read(ready, 1)\ntime.sleep(1); os.close(hold)\nfor _ in range({n}): os.wait()")
        return f"exec {PYTHON} -S -c \"{code}\""
    done = ashlar("compare", "-e", experiment(tmp_path, forks(1), forks(4)), *QUIET)
    assert done.returncode == 0, done.stderr
    peaks = {l["variant"]: l["mean"]["value"] for l in report(tmp_path)["analysis"]["levels"] if l["metric"] == "peak_mib"}
    assert peaks["other"] - peaks["good"] == pytest.approx(3 * 20e6 / 2**20, rel=0.15)


def test_figures_a_program_reports_become_columns(tmp_path, ashlar):
    told = """sleep 0.06; echo '{"gc_count": 7, "gc_time_ms": 1.5}' >> "$ASHLAR_REPORT_FILE"; echo '{"gc_count": %d}' >> "$ASHLAR_REPORT_FILE" """
    done = ashlar("compare", "-e", experiment(tmp_path, told % 8, told % 4), "--form", "json,md", "-q")
    assert done.returncode == 0
    (ratio,) = [r["ratio"]["value"] for r in report(tmp_path)["analysis"]["ratios"] if r["metric"] == "gc_count"]
    assert ratio == pytest.approx(0.5), "the later line wins"
    assert "Collections" in (tmp_path / "e.md").read_text()


def test_settled_memory_that_programs_report_can_be_the_space_of_an_experiment(tmp_path, ashlar):
    told = """sleep 0.06; echo '{"settled_mib": %d}' >> "$ASHLAR_REPORT_FILE" """
    path = experiment(tmp_path, told % 100, told % 80, space="settled_mib")
    assert ashlar("compare", "-e", path, *QUIET).returncode == 0
    over = {o["variant"]: o["over"]["value"] for o in report(tmp_path)["analysis"]["overheads"] if o["metric"] == "settled_mib"}
    assert over["other"] == 0 and over["good"] == pytest.approx(0.25)
    assert ashlar("report", str(tmp_path / "e.ashlar"), "--output", str(tmp_path / "kept"), "--form", "record", "--quiet").returncode == 0
    assert "settled_mib" in (tmp_path / "kept.csv").read_text().splitlines()[0], "what an experiment compares is kept of every run"


def test_a_program_does_not_replace_what_is_measured(tmp_path, ashlar):
    told = """sleep 0.06; echo '{"cpu_s": 1000, "wall_s": 1000, "final_mib": 1000}' >> "$ASHLAR_REPORT_FILE" """
    ashlar("compare", "-e", experiment(tmp_path, "sleep 0.06", told), *QUIET)
    levels = {(l["variant"], l["metric"]): l["mean"]["value"] for l in report(tmp_path)["analysis"]["levels"]}
    assert levels["other", "cpu_s"] < 1 and levels["other", "wall_s"] < 1
    assert levels["other", "final_mib"] == 1000, "the program knows when its work had ended"
    assert "figure 'cpu_s': the lab measures that itself; the program's 1000 is left out" in " ".join(report(tmp_path)["warnings"])


def test_a_program_that_is_ended_by_a_real_time_signal_is_a_run_that_failed(tmp_path, ashlar):
    ashlar("compare", "-e", experiment(tmp_path, "sleep 0.06", "sleep 0.06; kill -35 $$"), *QUIET)
    assert "it was ended by signal 35 (real-time)" in {r.reason for r in read_all([tmp_path / "e.ashlar"])[2]}


def test_figures_that_are_no_figures_are_named(tmp_path, ashlar):
    told = """sleep 0.06; echo 'gc_count 7' >> "$ASHLAR_REPORT_FILE"; echo '{"Bad Name": 1, "gc": "many"}' >> "$ASHLAR_REPORT_FILE" """
    ashlar("compare", "-e", experiment(tmp_path, told, told), *QUIET)
    warnings = " ".join(report(tmp_path)["warnings"])
    assert "not JSON" in warnings and "Bad Name" in warnings and "many" in warnings


def test_a_preload_that_does_nothing_stops_the_experiment(tmp_path, ashlar):
    """A library that every process lacks: its name is looked for in the maps and must be found."""
    path = tmp_path / "e.toml"
    path.write_text("[experiment]\nname = 'e'\n[[program]]\nname = 'p'\ncommand = ['sleep', '0.05']\n"
                    "[[variant]]\nname = 'a'\n[[variant]]\nname = 'b'\nlibrary = 'libnowhere.so'\n")
    done = ashlar("compare", "-e", path)
    assert done.returncode == 2 and "libnowhere.so was in no process's maps" in done.stderr
    assert not (tmp_path / "e.ashlar").exists()


def test_the_environment_size_varies_from_run_to_run(tmp_path, ashlar):
    ashlar("compare", "-e", experiment(tmp_path, "sleep 0.06", "sleep 0.06", blocks=3), *QUIET)
    assert len({r.padding for r in read_all([tmp_path / "e.ashlar"])[2]}) > 5


def test_the_report_names_what_the_machine_cannot_measure(tmp_path, ashlar):
    ashlar("compare", "-e", experiment(tmp_path, "sleep 0.06", "sleep 0.06"), *QUIET)
    runs = read_all([tmp_path / "e.ashlar"])[2]
    for name in ("instructions", "cgroup_peak_mib"):
        assert all(name in r.metrics or re.search(r"\w{3}", r.missing[name]) for r in runs)
