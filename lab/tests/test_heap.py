"""`ashlar heap`: an image to figures, their errors, and the forms. The images are written by heap_image.py."""

import gzip
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from html.parser import HTMLParser

import numpy as np
import pprof_reader
import pytest
from heap_image import GEM, LEAK, PERIOD, TEMPORARY, Program, busy, publish

from ashlar import cli
from ashlar.errors import BadInput
from ashlar import amounts, bars
from ashlar.heap import collapsed, html, image, pprof, profile


def resolved(program: Program) -> profile.Profile:
    content = program.write()
    return profile.from_image(image.parse("made up", lambda offset, count: content[offset:offset + count]))


@dataclass
class Done:
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def here(tmp_path, monkeypatch, capsys):
    """The command in this very process: for the many that only say what is wrong."""
    def run(*arguments):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", ["ashlar", *map(str, arguments)])
        before = signal.getsignal(signal.SIGTERM)
        with pytest.raises(SystemExit) as ended:
            cli.main()
        signal.signal(signal.SIGTERM, before)
        return Done(ended.value.code or 0, *capsys.readouterr())
    return run


@pytest.fixture
def dump(tmp_path):
    """A profile in a file."""
    path = tmp_path / "app.heap"
    path.write_bytes(busy().write())
    return path


# ── The image ──────────────────────────────────────────────────────────────

def test_the_image_is_read_as_it_was_written():
    found = resolved(busy())
    assert (found.image.pid, found.image.command, found.image.ruby, found.image.origin) == (4242, "ruby app.rb", "ruby 3.4.5 +ASHLAR", "on request")
    assert found.image.numbers["pause_ns_max"] == 30_000_000 and found.image.collections == 10
    kept = next(s for s in found.sites if s.class_name == "String")
    assert [(f.label, f.path, f.line) for f in kept.stack] == LEAK
    assert (kept.kind, kept.width, kept.amounts.live.samples, kept.amounts.allocated.samples) == ("cell", 640, 30, 30)
    assert kept.amounts.live.bytes.value == pytest.approx(30 * 640 / -np.expm1(-640 / PERIOD))


def test_a_later_writer_may_have_more_numbers_and_longer_entries():
    content = bytearray(busy().write())
    struct.pack_into("<I", content, 64, 30)
    found = image.parse("made up", lambda offset, count: bytes(content[offset:offset + count]))
    assert found.numbers["payload_block_bytes"] == 0 and len(found.numbers) == len(image.NUMBERS)


def test_the_line_of_a_site_is_the_innermost_one_of_ruby():
    lines = {g.name.place for g in profile.by_line(resolved(busy()))}
    assert lines == {"/srv/app/cache.rb:12", "/srv/app/view.rb:7", GEM[0][1] + ":80"}


def test_ages_count_the_collections_survived():
    program = Program()
    program.allocate(LEAK, count=2)  # survives all three
    program.collect()
    program.allocate(LEAK, count=3)  # survives two
    for _ in range(2):
        program.collect()
    program.allocate(LEAK, count=5)
    rows = profile.by_age(resolved(program))
    assert {r.name: r.live.samples for r in rows if r.live.samples} == {"0": 5, "2–3": 5}


def test_the_dead_are_counted_by_their_age():
    program = Program()
    lasting = program.allocate(LEAK, count=4)
    short = program.allocate(LEAK, count=2)
    program.collect(short)
    for _ in range(3):
        program.collect()
    program.collect(lasting)
    assert [r.died for r in profile.by_age(resolved(program))] == [2, 0, 0, 4, 0, 0, 0, 0]


def test_where_the_tables_were_full_the_rest_is_one_line(ashlar, tmp_path):
    content = bytearray(busy().write())
    sites = struct.unpack_from("<Q", content, 128 + 3 * 24)[0]
    struct.pack_into("<Qdd", content, sites + 16, 7, 7000.0, 7e6)
    (tmp_path / "full.heap").write_bytes(content)
    shown = ashlar("heap", "full.heap").stdout
    assert "(others: the tables were full)" in shown and "warning: 7 samples are of lines for which" in shown


# ── How sure a figure is ───────────────────────────────────────────────────

@pytest.mark.parametrize("size", [40, 4096, 300_000, 2_000_000])
def test_the_interval_of_an_estimate_covers_the_truth(size):
    rng = np.random.default_rng(7)
    objects = max(60, int(60 * PERIOD / size))
    p = float(amounts.probability(size, PERIOD))
    of_objects, of_bytes = (float(v) for v in amounts.variances(size, PERIOD))
    n = rng.binomial(objects, p, 2000)
    covered = [abs(k / p - objects) <= amounts.Estimate(k / p, k * of_objects).error for k in n]
    covered_bytes = [abs(k * size / p - objects * size) <= amounts.Estimate(k * size / p, k * of_bytes).error for k in n]
    assert 0.92 <= np.mean(covered) <= 1 and 0.92 <= np.mean(covered_bytes) <= 1


def test_no_size_adds_more_to_the_variance_than_the_period_squared():
    assert all(amounts.variances(size, PERIOD)[1] <= PERIOD ** 2 * 1.0001 for size in np.logspace(0, 9, 200))


def test_payloads_of_unknown_sizes_get_an_error_that_is_not_too_small():
    program = Program()
    for size in (1000, 100_000, 3_000_000):
        program.allocate(LEAK, size=size, count=10, payload=True)
    site = next(s for s in resolved(program).sites if s.amounts.allocated.samples)
    assert site.amounts.allocated.bytes.error >= site.amounts.live.bytes.error > 0


@pytest.mark.parametrize(("value", "error", "text"), [
    (0, None, "0 bytes"), (1536, None, "1.50 KiB"), (123 * 2 ** 20, None, "123 MiB"), (15.01 * 2 ** 20, 5.4 * 2 ** 20, "15.0 ± 5.4 MiB"),
    (100 * 2 ** 20, 14 * 2 ** 20, "100 ± 14 MiB"), (3 * 2 ** 30, 2 ** 25, "3.00 ± 0.03 GiB")])
def test_memory_is_written_with_the_digits_its_error_leaves(value, error, text):
    assert amounts.memory(value, error) == text


@pytest.mark.parametrize(("value", "error", "text"), [(24591, 8800, "24,600 ± 8,800"), (58.2, 32.1, "58 ± 32"), (0.2, 0.1, "0 ± 0"), (1234567, None, "1,230,000")])
def test_counts_are_rounded_to_two_digits_of_their_error(value, error, text):
    assert amounts.count(value, error) == text


# ── In the terminal ────────────────────────────────────────────────────────

def test_the_terminal_shows_lines_classes_ages_and_widths_each_with_its_error(ashlar, dump):
    done = ashlar("heap", dump)
    assert done.returncode == 0, done.stderr
    assert re.search(r"/srv/app/cache\.rb:12 Cache#put +\| +String \| +15\.0 ± 5\.4 MiB", done.stdout)
    for title in ("By line", "By class", "By age", "By width"):
        assert f"\n{title}\n" in done.stdout
    assert "live: 15.0 ± 5.4 MiB by samples, 15.3 MiB by the heap's own count" in done.stdout


def test_lines_that_are_left_out_are_summed(ashlar, dump):
    shown = ashlar("heap", dump, "--lines", "1").stdout
    assert "2 more lines with – live and 106 ± 14 MiB allocated; --lines 3 shows all" in shown


def test_a_name_with_brackets_is_no_markup(tmp_path):
    program = Program()
    program.allocate([("Hash#[]=", "/srv/app/[red]cache.rb", 3)], "Struct[/red]", count=30)
    (tmp_path / "a.heap").write_bytes(program.write())
    script = f"script -qec '{sys.executable} -m ashlar heap {tmp_path}/a.heap' /dev/null"
    shown = subprocess.run(["sh", "-c", script], capture_output=True, text=True, env={**os.environ, "COLUMNS": "300"}, timeout=60).stdout
    assert "Hash#[]=" in shown and "[red]cache.rb" in shown and "Struct[/red]" in shown


# ── Forms ──────────────────────────────────────────────────────────────────

def test_the_forms_are_written_beside_the_file(ashlar, dump, tmp_path):
    done = ashlar("heap", dump, "--form", "html,pprof,collapsed,json")
    assert done.returncode == 0, done.stderr
    assert {p.name for p in tmp_path.iterdir()} == {"app.heap", "app.html", "app.pb.gz", "app.live.collapsed", "app.allocated.collapsed", "app.json"}


def test_profiles_of_forked_processes_keep_their_numbers(ashlar, dump, tmp_path):
    for number in (101, 102):
        shutil.copy(dump, tmp_path / f"app.heap.{number}")
        assert ashlar("heap", f"app.heap.{number}", "--form", "html").stdout == f"wrote app.heap.{number}.html\n"
    assert (tmp_path / "app.heap.101.html").exists() and (tmp_path / "app.heap.102.html").exists()


def test_one_form_goes_to_standard_output_or_to_the_very_name(ashlar, dump, tmp_path):
    assert json.loads(ashlar("heap", dump, "--form", "json", "--output", "-").stdout)["pid"] == 4242
    assert ashlar("heap", dump, "--form", "json", "--output", "other.json").returncode == 0
    assert json.loads((tmp_path / "other.json").read_text())["total"]["live_samples"] == 30


def test_pprof_holds_what_go_heap_profiles_hold():
    found = resolved(busy())
    read = pprof_reader.read(pprof.render(found))
    text = read.string_table
    assert [(text[t.type], text[t.unit]) for t in read.sample_type] == [
        ("alloc_objects", "count"), ("alloc_space", "bytes"), ("inuse_objects", "count"), ("inuse_space", "bytes")]
    assert text[read.default_sample_type] == "inuse_space" and (text[read.period_type.type], read.period) == ("space", PERIOD)
    functions = {f.id: (text[f.name], text[f.filename], f.start_line) for f in read.function}
    locations = {x.id: (*functions[x.line[0].function_id][:2], x.line[0].line) for x in read.location}
    samples = {tuple(locations[i] for i in s.location_id): s for s in read.sample}
    kept = samples[tuple(LEAK)]
    assert list(kept.value) == [round(e.value) for e in (lambda a: (a.allocated.objects, a.allocated.bytes, a.live.objects, a.live.bytes))(
        next(s for s in found.sites if s.class_name == "String").amounts)]
    assert [(text[x.key], text[x.str] or x.num, text[x.num_unit]) for x in kept.label] == [("class", "String", ""), ("kind", "cell", ""), ("width", 640, "bytes")]
    assert sum(s.value[3] for s in read.sample) == pytest.approx(found.total.live.bytes.value, abs=len(read.sample))
    assert text[0] == "" and read.mapping[0].has_functions and read.time_nanos == found.image.taken_ns


@pytest.mark.skipif(not shutil.which("go"), reason="go tool pprof comes with Go, which the lab does not need")
def test_go_tool_pprof_reads_it(tmp_path, dump, ashlar):
    ashlar("heap", dump, "--form", "pprof")
    top = subprocess.run(["go", "tool", "pprof", "-lines", "-top", "-sample_index=inuse_space", str(tmp_path / "app.pb.gz")], capture_output=True, text=True,
                         timeout=600)  # Go compiles the tool when it is used first
    assert re.search(r"15\.01MB +100% .*Cache#put /srv/app/cache\.rb:12", top.stdout), top.stdout + top.stderr
    assert "<main>" in top.stdout


def test_collapsed_stacks_are_outermost_first_and_end_in_a_number():
    program = busy()
    program.allocate([("a;b\nc", "/srv/x.rb", 1)], "Odd;name", count=1)
    lines = collapsed.render(resolved(program), "live").splitlines()
    assert "<main> /srv/app/app.rb:3;Worker#run /srv/app/worker.rb:30;Cache#put /srv/app/cache.rb:12;String 15738242" in lines
    assert any(line.startswith("a,b c /srv/x.rb:1;Odd,name ") for line in lines)
    assert all(re.fullmatch(r".+ \d+", line) for line in lines)


class Page(HTMLParser):
    VOID = {"meta", "input", "br", "link", "img"}

    def __init__(self):
        super().__init__()
        self.open, self.outside = [], []

    def handle_starttag(self, tag, attrs):
        if tag not in self.VOID:
            self.open.append(tag)
        self.outside += [(tag, k, v) for k, v in attrs if k in ("src", "href", "srcset", "action") or k.startswith("on")]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, tag


def test_the_page_is_one_file_that_fetches_nothing_and_runs_no_foreign_text():
    program = busy()
    program.allocate([("</script><script>alert(1)</script>", "/srv/<b>.rb", 1)], "<img src=x onerror=alert(1)>", count=3)
    text = html.render(resolved(program))
    page = Page()
    page.feed(text)
    assert page.open == [] and page.outside == []
    assert "alert(1)</script>" not in text and "<img" not in text and "<script" not in text
    assert "prefers-color-scheme:dark" in text and "default-src 'none'" in text and not re.search(r"@import|url\(|https?://", text)


@pytest.mark.parametrize("measure", html.MEASURES)
def test_a_flame_graph_sums_to_the_whole(measure):
    found = resolved(busy())
    root, seen = html.graph(found, measure), set()

    def check(bar):
        seen.add(bar.told)
        if bar.below:
            assert sum(b.size for b in bar.below) == pytest.approx(bar.size)
        for b in bar.below:
            check(b)
    check(root)
    assert root.size == pytest.approx((found.total.live if measure == "live" else found.total.allocated).bytes.value)
    for label, path, line in (LEAK[0], GEM[0]):
        assert any(told.startswith(f"{label} — {path}:{line}: ") for told in seen)


def test_the_deepest_stack_that_is_kept_is_drawn_as_deep_as_a_drawing_goes():
    program = busy()
    program.allocate([(f"m{depth}", "/srv/app/deep.rb", depth) for depth in range(512)], count=30)
    html.render(found := resolved(program))
    deepest, levels = html.graph(found, "live"), 0
    while deepest.below:
        deepest, levels = max(deepest.below, key=lambda bar: "deep.rb" in bar.told), levels + 1
    assert levels == bars.DEEP


def test_the_json_has_every_site_with_its_stack(ashlar, dump):
    found = json.loads(ashlar("heap", dump, "--form", "json", "--output", "-").stdout)
    kept = next(s for s in found["sites"] if s["class"] == "String")
    assert [(f["label"], f["path"], f["line"]) for f in kept["stack"]] == LEAK and kept["live_bytes_error"] > 0
    assert found["lines"][0]["path"] == "/srv/app/cache.rb"


# ── A process that runs ────────────────────────────────────────────────────

@pytest.fixture
def published(request):
    """An image of this very process, and the way to change it."""
    program = busy()
    program.pid = os.getpid()
    descriptor = publish(program.write())
    yield program, descriptor
    os.close(descriptor)


def test_the_image_of_a_process_is_read_while_it_runs(ashlar, published, tmp_path):
    done = ashlar("heap", os.getpid())
    assert "cache.rb:12 Cache#put" in done.stdout, done.stderr
    ashlar("heap", os.getpid(), "--form", "json")
    assert [p.name for p in tmp_path.iterdir()] == [f"heap-{os.getpid()}.json"]


def test_an_image_inherited_over_a_fork_is_not_the_childs(ashlar):
    descriptor = publish(busy().write())  # its number is another process's
    try:
        done = ashlar("heap", os.getpid())
        assert done.returncode == 2 and "has no live image; start it with ASHLAR_LIVE=1" in done.stderr
    finally:
        os.close(descriptor)


@pytest.mark.parametrize(("offset", "entries"), [(1 << 63, 1), (4096, 2 ** 32 - 1)])
def test_a_table_that_lies_where_no_image_reaches_gets_one_line(here, published, offset, entries):
    os.pwrite(published[1], struct.pack("<QIII", offset, 1, entries, entries), 128)
    done = here("heap", os.getpid())
    assert done.returncode == 2 and f"is damaged: it has a table of strings that ends at byte {offset + entries}" in done.stderr and done.stderr.count("\n") == 1


UNSHARED = ("unshare", "--user", "--map-root-user", "--mount")  # as in a container


@pytest.mark.skipif(subprocess.run([*UNSHARED, "true"], stderr=subprocess.DEVNULL).returncode != 0, reason="no right to a namespace of mounts here")
def test_a_pipe_that_bears_the_name_of_an_image_keeps_nobody_waiting(ashlar, tmp_path):
    script = ("mount -t tmpfs none . && cd $PWD && mkfifo memfd:ashlar-live && exec 3<>memfd:ashlar-live && rm memfd:ashlar-live && "
              "mkdir old && pivot_root . old && echo ready && read nothing")
    running = subprocess.Popen([*UNSHARED, "sh", "-c", script], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert running.stdout.readline() == "ready\n" and os.readlink(f"/proc/{running.pid}/fd/3") == "/memfd:ashlar-live (deleted)"
        assert "has no live image" in ashlar("top", running.pid, timeout=20).stderr
        assert ashlar("top", timeout=60).returncode == 0
    finally:
        running.kill()
        running.wait()


def test_an_image_that_changes_while_it_is_read_is_read_again_whole(published):
    program, descriptor = published
    contents = [program.write(sequence=2)]
    program.allocate(LEAK, "Symbol", 80, 500)
    contents.append(program.write(sequence=2))
    stop = threading.Event()

    def change():
        sequence = 2
        while not stop.is_set():
            sequence += 1
            os.pwrite(descriptor, struct.pack("<Q", sequence), 16)
            new = contents[sequence // 2 % 2]
            half = len(new) // 2
            os.pwrite(descriptor, new[24:half], 24)
            os.pwrite(descriptor, new[half:], half)
            sequence += 1
            os.pwrite(descriptor, struct.pack("<Q", sequence), 16)
            time.sleep(0.002)
    writer = threading.Thread(target=change)
    writer.start()
    try:
        for _ in range(60):
            found = profile.from_image(image.read_process(os.getpid()))
            assert found.total.live.samples in (30, 530) and found.total.live.samples == len(found.image.samples)
    finally:
        stop.set()
        writer.join()


def test_an_image_that_never_stands_still_is_given_up(published, monkeypatch):
    _, descriptor = published
    monkeypatch.setattr(image, "_PATIENCE_S", 0.1)
    os.pwrite(descriptor, struct.pack("<Q", 3), 16)
    with pytest.raises(BadInput, match="changed at every reading"):
        image.read_process(os.getpid())


# ── Bad input ──────────────────────────────────────────────────────────────

def broken(what: str) -> bytes:
    content = bytearray(busy().write())
    frames, nodes, sites, samples = (struct.unpack_from("<Q", content, 128 + 24 * i)[0] for i in (1, 2, 3, 4))
    if what == "frame":
        struct.pack_into("<I", content, nodes + 12 + 4, 999)
    elif what == "cycle":
        struct.pack_into("<I", content, nodes + 12, 1)
    elif what == "string":
        struct.pack_into("<I", content, frames + 16, 10 ** 6)
    elif what == "site":
        struct.pack_into("<I", content, samples + 8, 999)
    elif what == "nan":
        struct.pack_into("<d", content, sites + 2 * 96 + 56, float("nan"))
    elif what == "too many":
        struct.pack_into("<d", content, sites + 4 * 96 + 24, 1e300)  # of payloads, whose number is squared
    elif what == "directory":
        struct.pack_into("<I", content, 128 + 24 + 8, 3)
    return bytes(content)


def endless() -> bytes:
    program = Program()
    program.allocate([(f"m{depth}", "/srv/app/deep.rb", depth) for depth in range(3000)])
    return program.write()


@pytest.mark.parametrize(("content", "complaint"), [
    (b"", "is no heap profile: it does not begin with ASHLARHP"),
    (b"#!/usr/bin/env ruby\nputs 1\n", "is no heap profile"),
    (b"ASHLARHP\1\0\0\0", "is truncated: it ends after 12 of the header's 4096 bytes"),
    (busy().write()[:5000], "is truncated: it ends inside its table of"),
    (busy().write(version=2), "has version 2 of the format, and this ashlar reads version 1"),
    (busy().write(tables=False), "is damaged: it has 0 tables"),
    (Program(period=0).write(), "has live numbers, but nothing was sampled"),
    (broken("frame"), "is damaged: it has a stack with frame 999"),
    (broken("cycle"), "is damaged: it has a node of stacks at 1 that is called by a later one"),
    (broken("string"), "is damaged: it has a string at 1000000"),
    (broken("site"), "is damaged: it has a sample of site 999"),
    (broken("nan"), "is damaged: it has a site whose live bytes are no number"),
    (broken("too many"), "is damaged: it has a site whose allocated objects are no number that can be"),
    (endless(), "is damaged: it has a stack of more than 2048 frames"),
    (broken("directory"), "is damaged: it has a table of frames"),
])
def test_a_file_that_is_no_whole_profile_gets_one_line(here, tmp_path, content, complaint):
    (tmp_path / "x.heap").write_bytes(content)
    for arguments in (("heap", "x.heap"), ("heap", "x.heap", "--form", "html,json"), ("heap", "diff", "x.heap", "x.heap")):
        done = here(*arguments)
        assert done.returncode == 2 and complaint in done.stderr and done.stderr.count("\n") == 1 and done.stdout == ""
    assert [p.name for p in tmp_path.iterdir()] == ["x.heap"]


def test_a_large_file_that_is_no_profile_is_not_read(tmp_path):
    with (tmp_path / "app.dump").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(BadInput, match="is no heap profile"):
        image.read_file(tmp_path / "app.dump")


@pytest.mark.parametrize(("arguments", "complaint"), [
    (("heap", "nowhere.heap"), "cannot read the profile nowhere.heap: No such file"),
    (("heap", "."), "cannot read the profile .: Is a directory"),
    (("heap", "4194304"), "there is no process 4194304; ashlar top lists those"),
    (("heap", "app.heap", "b.heap"), "takes one file or process"),
    (("heap", "diff", "app.heap"), "takes two profiles, and got 1"),
    (("heap", "app.heap", "--form", "svg"), "--form has 'svg'; give some of terminal,html,pprof,collapsed,json"),
    (("heap", "app.heap", "--form", ""), "--form is empty"),
    (("heap", "diff", "app.heap", "app.heap", "--form", "pprof"), "--form has 'pprof'; give some of terminal,json"),
    (("heap", "app.heap", "--lines", "0"), "--lines 0 shows nothing"),
    (("heap", "app.heap", "--output", "x"), "--form terminal writes none"),
    (("heap", "app.heap", "--form", "html,json", "--output", "-"), "--output - takes one form"),
    (("heap", "app.heap", "--strict"), "--strict judges two profiles"),
    (("heap", "app.heap", "--form", "html", "--output", "/no/such/folder/x"), "cannot write /no/such/folder/x.html: No such file"),
    (("heap", "app.heap", "--form", "json", "--output", "/dev/full"), "cannot write /dev/full: No space left"),
    (("heap", "diff", "app.heap", "app.heap", "--form", "json", "--output", "/dev/full"), "cannot write /dev/full: No space left"),
])
def test_bad_input_gets_one_line_status_2_and_leaves_nothing(here, tmp_path, dump, arguments, complaint):
    done = here(*arguments)
    assert done.returncode == 2, done.stdout
    assert complaint in done.stderr and done.stderr.count("\n") == 1 and done.stderr.startswith("ashlar: ")
    assert [p.name for p in tmp_path.iterdir()] == ["app.heap"] and not os.path.isfile("/dev/full")


@pytest.mark.parametrize("command", ["heap", "top"])
def test_a_process_without_an_image_is_told_what_to_set(ashlar, command):
    sleeping = subprocess.Popen(["sleep", "60"])
    try:
        done = ashlar(command, sleeping.pid)
    finally:
        sleeping.kill()
        sleeping.wait()
    assert done.returncode == 2 and f"process {sleeping.pid} (sleep) has no live image; start it with ASHLAR_LIVE=1" in done.stderr


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
def test_a_process_of_somebody_else_is_refused_in_one_line():
    reading, writing = os.pipe()
    parent, child = os.getpid(), os.fork()
    if not child:
        try:
            os.setgid(65534)
            os.setuid(65534)
            image.read_process(parent)
        except BaseException as error:
            os.write(writing, f"{type(error).__name__}: {error}".encode())
        os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    said = os.read(reading, 1000).decode()
    os.close(reading)
    assert said.startswith(f"BadInput: not allowed to read process {parent}") and said.endswith("become its user, or root")


def test_a_full_disk_under_standard_output_is_told(tmp_path, dump):
    for form in (("--form", "json", "--output", "-"), ()):
        with open("/dev/full", "w") as full:
            done = subprocess.run([sys.executable, "-m", "ashlar", "heap", str(dump), *form], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
        assert (done.returncode, done.stderr) == (2, "ashlar: cannot write to standard output: No space left on device; give it a place with room\n")


def test_a_reader_that_has_gone_is_no_error(dump):
    done = subprocess.run(["sh", "-c", f"{sys.executable} -m ashlar heap {dump} --form json --output - | head -c 10"], capture_output=True, text=True, timeout=60)
    assert done.stderr == "" and len(done.stdout) == 10


def test_a_disk_that_fills_up_leaves_the_old_file(dump, tmp_path):
    (tmp_path / "app.html").write_text("old")
    script = (f"import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))\n"
              f"import sys; sys.argv = ['ashlar', 'heap', '{dump}', '--form', 'html']\nfrom ashlar.cli import main; main()")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path, timeout=60)
    assert done.returncode == 2 and "cannot write" in done.stderr and done.stderr.count("\n") == 1
    assert (tmp_path / "app.html").read_text() == "old" and {p.name for p in tmp_path.iterdir()} == {"app.heap", "app.html"}


def test_a_crash_in_the_middle_of_a_change_is_read_with_a_warning(ashlar, tmp_path):
    (tmp_path / "crash.heap").write_bytes(busy().write(sequence=5, origin=3, lost=9))
    done = ashlar("heap", "crash.heap")
    assert done.returncode == 0 and "at a crash" in done.stdout
    assert "the program ended in the middle of a change" in done.stdout and "9 samples found no place" in done.stdout


def test_five_thousand_sites_are_read_in_seconds(ashlar, tmp_path):
    program = Program()
    for i in range(5_000):
        program.allocate([(f"m{i}", f"/srv/app/{i % 500}.rb", i), *TEMPORARY[1:]], f"C{i % 40}", 40 + 8 * (i % 20), 2)
    (tmp_path / "large.heap").write_bytes(program.write())
    began = time.monotonic()
    done = ashlar("heap", "large.heap", "--form", "html,pprof,json,collapsed")
    assert done.returncode == 0 and time.monotonic() - began < 60  # a quiet core takes 2 s
    assert gzip.decompress((tmp_path / "large.pb.gz").read_bytes())


