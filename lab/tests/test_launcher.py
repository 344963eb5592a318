"""What the launcher reports is the command's own, whatever the lab's process is like."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from conftest import PYTHON

from ashlar import processes
from ashlar.memory import launcher


def observe(tmp_path: Path, *command, **options) -> launcher.Observed:
    process = launcher.start(tuple(map(str, command)), result=tmp_path / "observed", environment=dict(os.environ),
                             output=tmp_path / "output", errors=tmp_path / "errors", period_us=10000, **options)
    process.wait(timeout=60)
    return launcher.read_observed(tmp_path / "observed")


def test_the_floor_of_peak_rss_is_below_2_mb_even_under_a_fat_parent(tmp_path):
    ballast = bytearray(200_000_000)
    ballast[::4096] = b"x" * len(ballast[::4096])
    seen = observe(tmp_path, "/bin/true")
    assert seen.numbers["max_rss_kb"] < 2048
    assert seen.numbers["launcher_max_rss_kb"] < 2048
    assert seen.numbers["exit"] == 0 and seen.complete


def test_peak_rss_counts_what_the_command_touched(tmp_path):
    small = observe(tmp_path, PYTHON, "-S", "-c", "pass").numbers["max_rss_kb"]
    large = observe(tmp_path, PYTHON, "-S", "-c", "x = b'x' * 50_000_000").numbers["max_rss_kb"]
    assert 50_000_000 / 1024 * 0.98 < large - small < 50_000_000 / 1024 * 1.05


def test_samples_cover_the_whole_tree(tmp_path):
    code = "import os, time; x = b'x' * 40_000_000; pid = os.fork(); time.sleep(0.4); pid and os.wait()"
    seen = observe(tmp_path, PYTHON, "-S", "-c", code)
    assert seen.numbers["processes_max"] == 2
    assert max(rss for _, rss, _ in seen.samples) > 1.6 * seen.numbers["max_rss_kb"]  # RSS counts the shared pages twice
    assert max(pss for _, pss, *_ in seen.pss) < 1.2 * seen.numbers["max_rss_kb"]  # PSS counts them once


def test_a_short_peak_of_a_tree_is_seen_though_reading_pss_is_dear(tmp_path):
    """At a thousandth of a core, one reading of this tree's PSS is followed by seconds without another; the child lives in them."""
    child = "b = b'x' * 100_000_000; time.sleep(1.5); os._exit(0)"
    code = f"import os, time\na = b'x' * 400_000_000\ntime.sleep(0.5)\nif os.fork() == 0: {child}\nos.wait()"
    seen = observe(tmp_path, "sh", "-c", f'{PYTHON} -S -c "{code}"; true', duty_permille=1)
    # It may have been read while the child still wrote: within a twentieth of the sum of RSS, which is 0.9 GB here.
    assert max(pss for _, pss, *_ in seen.pss) * 1024 > 500_000_000 - 0.05 * 900_000_000


def test_time_that_the_machine_took_from_a_look_does_not_put_off_the_next(tmp_path):
    """A virtual machine's lost time is counted as the launcher's: one or three dear looks are none of its own, four are."""
    looks = [(1000, 1), (21_000, 1), (4000, 4), (2000, 2), (50_000, 2), (60_000, 2), (70_000, 2), (50_000, 2)]
    called = "".join(f'printf("%lld ", (long long)usual_cost_ns(&costs, {cost}, {units}));' for cost, units in looks)
    program = tmp_path / "looks.c"
    program.write_text(f'#define main launched\n#include "{Path(launcher.__file__).with_name("launcher.c")}"\n#undef main\n'
                       f"int main(void) {{ struct costs costs = {{0}}; {called} }}\n")
    subprocess.run([*os.environ.get("CC", "cc").split(), "-o", tmp_path / "looks", program], check=True)
    told = subprocess.run([tmp_path / "looks"], check=True, capture_output=True, text=True).stdout
    assert list(map(int, told.split())) == [1000, 1000, 4000, 2000, 2000, 2000, 2000, 50_000]


def test_cpu_time_of_children_is_included(tmp_path):
    busy = "import time; end = time.process_time() + 0.3\nwhile time.process_time() < end: pass"
    seen = observe(tmp_path, PYTHON, "-S", "-c", f"import subprocess, sys; subprocess.run([sys.executable, '-S', '-c', {busy!r}])")
    assert seen.numbers["user_us"] + seen.numbers["sys_us"] >= 290_000


def test_a_hanging_tree_is_killed_at_its_time_limit_even_when_it_ignores_requests(tmp_path):
    began = time.monotonic()
    seen = observe(tmp_path, "sh", "-c", "trap '' TERM; sleep 60 & echo $!; sleep 60", timeout_s=0.3, grace_s=0.2)
    assert time.monotonic() - began < 10
    assert seen.timed_out
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "output").read_text()), 0)


def test_processes_left_behind_are_counted_and_ended(tmp_path):
    seen = observe(tmp_path, "sh", "-c", "setsid sleep 60 & echo $!; exit 3")
    assert seen.numbers["exit"] == 3
    assert seen.numbers["left_behind"] == 1
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "output").read_text()), 0)


@pytest.mark.parametrize("trace", [False, True])
def test_a_missing_program_is_told_from_one_that_fails(tmp_path, trace):
    assert observe(tmp_path, "/no/such/program", trace=trace).exec_failed == "No such file or directory"
    failed = observe(tmp_path, "sh", "-c", "exit 127", trace=trace)
    assert failed.exec_failed is None and failed.numbers["exit"] == 127


@pytest.mark.parametrize("trace", [False, True])
def test_a_signal_is_reported_as_such(tmp_path, trace):
    assert observe(tmp_path, "sh", "-c", "kill -SEGV $$", trace=trace).numbers["signal"] == signal.SIGSEGV


def test_memory_at_exit_is_read_while_it_is_still_mapped(tmp_path):
    seen = observe(tmp_path, PYTHON, "-S", "-c", "import os; x = b'x' * 30_000_000; os._exit(0)", trace=True)
    (at_exit,) = [m for m in seen.memory if m["moment"] == "at_exit"]
    assert at_exit["private_kib"] > 30_000_000 / 1024
    assert abs(at_exit["hwm_kib"] - seen.numbers["max_rss_kb"]) < 1024


@pytest.mark.parametrize(("name", "shown"), [(b"web\tworker", "web_worker"), (b"a\rb 1\n2", "a_b_1_2"), ("a\u2028\u00a0b\x85".encode(), "a\u2028\u00a0b\x85"), (b"x\xff", "x\ufffd"), (b"", "?")])
def test_a_process_may_have_any_name(tmp_path, name, shown):
    seen = observe(tmp_path, PYTHON, "-S", "-c", f"import ctypes; ctypes.CDLL(None).prctl(15, {name!r}, 0, 0, 0)", trace=True)
    (at_exit,) = [m for m in seen.memory if m["moment"] == "at_exit"]
    assert at_exit["name"] == shown and at_exit["hwm_kib"] > 0 and seen.complete


def test_threads_and_their_end_do_not_confuse_a_trace(tmp_path):
    code = "import threading; [t.start() for t in [threading.Thread(target=lambda: None) for _ in range(20)]]"
    seen = observe(tmp_path, PYTHON, "-c", code, trace=True)
    assert seen.numbers["exit"] == 0 and [m["moment"] for m in seen.memory].count("at_exit") == 1


def test_the_preloaded_library_loads_into_the_command_and_not_into_the_launcher(tmp_path):
    library = next((m.split()[-1] for m in Path("/proc/self/maps").read_text().splitlines() if "libm.so" in m or "libm-" in m), None)
    if library is None:
        pytest.skip("this interpreter has no libm mapped to borrow as a harmless library")
    seen = observe(tmp_path, "/bin/sleep", "0.05", trace=True, preload=library, library=os.path.basename(library))
    assert seen.mapped == library
    assert seen.numbers["launcher_max_rss_kb"] < 2048


def test_missing_counters_have_a_reason(tmp_path):
    seen = observe(tmp_path, "/bin/true")
    for name in ("instructions", "cycles"):
        assert name in seen.counters or seen.missing_counters[name]


def test_nothing_runs_on_when_the_lab_dies(tmp_path):
    process = launcher.start(("sh", "-c", "echo $$; exec sleep 60"), result=tmp_path / "observed", environment=dict(os.environ), output=tmp_path / "output")
    for _ in range(200):
        if (tmp_path / "output").exists() and (tmp_path / "output").read_text().strip():
            break
        time.sleep(0.02)
    pid = int((tmp_path / "output").read_text())
    process.kill()
    process.wait()
    for _ in range(200):
        if processes.stat(pid) is None:  # gone, or only waiting to be asked after: whoever has adopted it may not ask
            return
        time.sleep(0.02)
    pytest.fail("the command outlived its launcher")
