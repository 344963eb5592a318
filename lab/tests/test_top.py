"""`ashlar top`: live numbers in the terminal and as OpenMetrics text. The images are written by heap_image.py."""

import os
import re
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest
from heap_image import busy, publish
from prometheus_client import parser as older_format
from prometheus_client.openmetrics import parser as openmetrics_format

from ashlar import cli
from ashlar.errors import BadInput
from ashlar.heap import command, openmetrics, top

GIVEN = dict(live_bytes=200 * 2 ** 20, cell_bytes=120 * 2 ** 20, payload_bytes=80 * 2 ** 20, cell_block_bytes=150 * 2 ** 20, hole_bytes=30 * 2 ** 20,
             spare_bytes=4 * 2 ** 20, allocated_bytes=10 * 2 ** 30, allocated_objects=10 ** 8, collector_ns=5 * 10 ** 8)


@pytest.fixture
def program():
    made = busy()
    made.pid = os.getpid()
    made.numbers.update(GIVEN)
    made.descriptor = publish(made.write())
    yield made
    os.close(made.descriptor)


def change(program, seconds, **numbers):
    """The library writes again, so many seconds later."""
    program.numbers.update(numbers)
    content = bytearray(program.write())
    struct.pack_into("<Q", content, 40, struct.unpack_from("<Q", content, 40)[0] + int(seconds * 1e9))
    os.pwrite(program.descriptor, bytes(content), 0)


def test_the_screen_shows_memory_rates_and_pauses(ashlar, program):
    done = ashlar("top", os.getpid(), "--once")
    assert done.returncode == 0, done.stderr
    shown = dict(re.match(r"  (.{16}) (.*)", line).groups() for line in done.stdout.splitlines()[1:])
    shown = {name.strip(): value for name, value in shown.items()}
    assert shown["live"] == "200 MiB in 123,456 cells, 20 % of the limit" and shown["payloads"] == "80.0 MiB" and shown["spare"] == "4.00 MiB"
    assert shown["holes"] == "30.0 MiB (20 % of the blocks of cells)" and shown["limit"] == "1.00 GiB"
    assert shown["pauses"] == "median 2 ms, 99 % within 29 ms, longest 30 ms; 12 so far"
    assert shown["allocation"] == "1.00 GiB/s, 10,000,000 objects/s"  # ten seconds since its start, by the image
    assert re.fullmatch(r"\d.* [KMG]iB.*", shown["RSS"])
    assert re.fullmatch(rf"\d.* [KMG]iB with other processes, \d.* [KMG]iB private dirty, PSS \d.* [KMG]iB; ashlar shared {os.getpid()} says what", shown["shared"])


def test_rates_are_of_the_interval_between_two_writings(program):
    before = top.read(os.getpid())
    change(program, 2, allocated_bytes=GIVEN["allocated_bytes"] + 100 * 2 ** 20, allocated_objects=10 ** 8 + 4000)
    program.full += 1
    change(program, 1)  # a collection is a second in the books of the fixture
    found = top.rates(top.read(os.getpid()), before)
    assert found.seconds == pytest.approx(2)
    assert (found.allocated_bytes_per_s, found.objects_per_s, found.full_per_s) == (pytest.approx(50 * 2 ** 20), pytest.approx(2000), pytest.approx(0.5))


# What four polls see of a program that uses a quarter of a core: before the third a collection of 50 ms is over, and the image is written.
POLLS = [dict(cpu_s=10.0), dict(cpu_s=10.25), dict(cpu_s=10.5, written=2), dict(cpu_s=10.75)]


@pytest.fixture
def polled(program, monkeypatch):
    """Makes the next poll see what it is to see; returns whether there is one."""
    waiting, cpu_s = iter(POLLS), [0.0]
    real = top.processes.stat

    def happens():
        if not (what := next(waiting, None)):
            return False
        cpu_s[0] = what["cpu_s"]
        if "written" in what:
            change(program, what["written"], collector_ns=GIVEN["collector_ns"] + 50 * 10 ** 6)
        return True

    monkeypatch.setattr(top.processes, "stat", lambda pid: real(pid)._replace(cpu_s=cpu_s[0]))
    return happens


def shares(shown):
    """The first line is of the time since the start."""
    return re.findall(r"collector +([\d.]+) % of the CPU time", shown)[1:]


def test_the_collector_s_share_is_of_the_cpu_time_between_two_writings(polled, monkeypatch, capsys):
    monkeypatch.setattr(command, "_moments", lambda every: iter(polled, False))
    command.top(cli._parser()[0].parse_args(["top", str(os.getpid()), "--every", "1"]))
    assert shares(capsys.readouterr().out) == ["0.0", "10.0", "0.0"]


def test_so_it_is_in_a_terminal_where_it_stays_until_something_new_is_written(polled, monkeypatch, capsys):
    def sleep(_):
        if not polled():
            raise KeyboardInterrupt
    polled()
    monkeypatch.setattr(top.time, "sleep", sleep)
    top.watch(os.getpid(), 1)
    assert shares(capsys.readouterr().out) == ["0.0", "10.0", "10.0"]


def test_nothing_new_written_is_a_rate_of_nothing(program):
    before = top.read(os.getpid())
    assert top.rates(top.read(os.getpid()), before).allocated_bytes_per_s == 0


def test_processes_are_listed(ashlar, program):
    done = ashlar("top")
    line = next(line for line in done.stdout.splitlines() if f"| {os.getpid()} " in line)
    assert "ruby app.rb" in line and "200 MiB" in line and "512 KiB" in line


def test_without_processes_the_list_says_what_to_set(monkeypatch):
    assert "start it with ASHLAR_LIVE=1" in top.listed([])


def test_a_terminal_is_refreshed_until_interrupted(program, tmp_path):
    """Through a pseudo-terminal; the process under watch is this one."""
    shown = tmp_path / "shown"
    with shown.open("wb") as file:
        watching = subprocess.Popen(["script", "-qefc", f"{sys.executable} -m ashlar top {os.getpid()} --every 0.2", "/dev/null"], stdout=file, stderr=file,
                                    stdin=subprocess.DEVNULL, start_new_session=True)
        until = time.monotonic() + 60
        while b"200 MiB" not in shown.read_bytes() and time.monotonic() < until:
            time.sleep(0.1)
        change(program, 1, live_bytes=333 * 2 ** 20)
        while b"333 MiB" not in shown.read_bytes() and time.monotonic() < until:
            time.sleep(0.1)
        os.killpg(watching.pid, signal.SIGINT)
        watching.wait(30)
    text = shown.read_bytes()
    assert b"200 MiB" in text and b"333 MiB" in text and b"Traceback" not in text, text[-2000:]


@pytest.mark.parametrize(("rows", "shown"), [(1, ["the end"]), (4, ["0", "1", "the end"]), (40, [*map(str, range(17)), "the end"])])
def test_a_short_terminal_shows_the_first_lines_and_the_last_and_does_not_scroll(rows, shown):
    assert top.fitting([*map(str, range(17)), "the end"], os.terminal_size((80, rows))) == shown


def test_a_narrow_terminal_shows_the_begin_of_a_line():
    assert top.fitting(["ab\x1bcd", "the end"], os.terminal_size((4, 40))) == ["ab\\", "the"]


# ── OpenMetrics ────────────────────────────────────────────────────────────

def test_the_text_is_valid_openmetrics(ashlar, program):
    text = ashlar("top", os.getpid(), "--form", "openmetrics").stdout
    families = {f.name: f for f in openmetrics_format.text_string_to_metric_families(text)}
    live = families["ashlar_live_bytes"]
    assert (live.type, live.unit, live.samples[0].value, live.samples[0].labels) == ("gauge", "bytes", 200 * 2 ** 20, {"pid": str(os.getpid())})
    assert families["ashlar_allocated_bytes"].samples[0].name == "ashlar_allocated_bytes_total"
    assert families["ashlar_collector_seconds"].samples[0].value == 0.5 and families["ashlar_resident_bytes"].samples[0].value > 2 ** 20
    pauses = {(s.name, s.labels.get("quantile")): s.value for s in families["ashlar_pause_seconds"].samples}
    assert pauses["ashlar_pause_seconds", "1.0"] == 0.03 and pauses["ashlar_pause_seconds_count", None] == 12
    assert text.endswith("# EOF\n") and "\n\n" not in text


def test_a_node_exporter_can_read_it_as_the_older_format(program):
    text = openmetrics.render(top.read_all([os.getpid()]))
    values = {s.name: s.value for f in older_format.text_string_to_metric_families(text) for s in f.samples}
    assert values["ashlar_live_bytes"] == 200 * 2 ** 20 and values["ashlar_allocated_bytes_total"] == 10 * 2 ** 30
    assert set(re.findall(r"# TYPE \S+ (\S+)", text)) <= {"gauge", "counter", "summary"}


def test_ruby_serves_the_same_names_types_and_words():
    served = Path(__file__).parents[2] / "ruby/lib/ashlar/metrics.rb"
    if not served.exists():
        pytest.skip("the lab stands alone here, without the Ruby library beside it")
    ruby = {name: (kind, unit, told) for name, unit, kind, told in re.findall(r'family\("(\w+)", "(\w*)", "(\w+)", "([^"]+)"', served.read_text())}
    ours = {f.name: (f.type, f.unit, f.help) for f in openmetrics._FAMILIES}
    assert ruby.items() <= ours.items()
    assert ours.keys() - ruby.keys() == {"ashlar_pause_seconds", "ashlar_allocated_bytes", "ashlar_payload_block_bytes"}  # a summary, and what GC.stat lacks


def test_no_process_at_all_is_valid_text_as_well():
    assert list(openmetrics_format.text_string_to_metric_families(openmetrics.render([])))


def test_a_file_is_replaced_whole_again_and_again(program, tmp_path):
    target = tmp_path / "ashlar.prom"
    target.write_text("old")
    writing = subprocess.Popen([sys.executable, "-m", "ashlar", "top", str(os.getpid()), "--form", "openmetrics", "--output", str(target), "--every", "0.1"])
    until, seen, value = time.monotonic() + 60, set(), 0
    try:
        while len(seen) < 4 and time.monotonic() < until:
            text = target.read_text()
            assert text == "old" or text.endswith("# EOF\n")
            if text != "old":
                seen.add(re.search(r"ashlar_fresh_bytes\{.*\} (\d+)", text)[1])
            value += 1
            change(program, value, fresh_bytes=value)
            time.sleep(0.05)
    finally:
        writing.send_signal(signal.SIGINT)
        assert writing.wait(30) == 130
    assert len(seen) >= 4 and [p.name for p in tmp_path.iterdir()] == ["ashlar.prom"]


def test_where_no_process_may_be_read_one_line_says_so_once(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(top, "read_all", lambda pids: [])
    monkeypatch.setattr(command, "_moments", lambda every: iter(range(3)))
    command.top(cli._parser()[0].parse_args(["top", "--form", "openmetrics", "--output", str(tmp_path / "a.prom"), "--every", "15"]))
    said = capsys.readouterr()
    assert said.out == "" and said.err.startswith("ashlar: no process that this user may read has live numbers; start it with") and said.err.count("\n") == 1
    assert (tmp_path / "a.prom").read_text().endswith("# EOF\n")


# ── Bad input ──────────────────────────────────────────────────────────────

@pytest.mark.parametrize(("arguments", "complaint"), [
    (("top", "4194304"), "there is no process 4194304"),
    (("top", "app.heap"), "'app.heap' is no process's number"),
    (("top", "1", "--form", "json"), "--form has 'json'; give terminal or openmetrics"),
    (("top", "--every", "0"), "--every 0 is out of reach"),
    (("top", "--output", "x"), "--output names a file for --form openmetrics"),
    (("top", "--form", "openmetrics", "--output", "/no/such/folder/x.prom"), "cannot write /no/such/folder/x.prom: No such file"),
    (("top", "--form", "openmetrics", "--output", "/dev/full"), "cannot write /dev/full: No space left"),
    (("top", "--form", "openmetrics", "--output", ""), "cannot write .: Is a directory; name a writable place"),
])
def test_bad_input_gets_one_line_status_2_and_leaves_nothing(ashlar, tmp_path, arguments, complaint):
    done = ashlar(*arguments)
    assert done.returncode == 2 and complaint in done.stderr and done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_process_that_ends_while_it_is_read_is_named(program, monkeypatch):
    monkeypatch.setattr(top.image, "read_process", lambda pid, tables: top.image.parse("x", lambda a, n: program.write()[a:a + n]))
    with pytest.raises(BadInput, match="there is no process 4194304"):
        top.read(4194304)
