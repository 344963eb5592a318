"""Names that mean something to a terminal, to HTML or to Markdown are read as they were written, wherever they come out."""

import dataclasses
import fcntl
import html
import html.parser
import json
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from conftest import PYTHON, make_run, simulated_sweep, two_variants
from hypothesis import given, strategies
from markdown_it import MarkdownIt

from ashlar import said
from ashlar.tables import Table, drawn, show_parts
from ashlar_lab.fit.analysis import analyse
from ashlar_lab.report import html as html_report
from ashlar_lab.report import markdown as markdown_report
from ashlar_lab.report import page, write

NASTY = 'list [small] <b>&"'
CLOSES = "[/x] [bold]it[/bold]"


# ── The doors ──────────────────────────────────────────────────────────────

def rendered(markdown: str) -> str:
    return MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(markdown)


def text_of(page: str) -> str:
    return html.unescape(re.sub(r"<[^>]*>", "", page)).strip("\n")


ANY = strategies.text(alphabet=strategies.sampled_from(list("ab1 \\`*_~[](){}<>&#;:!|+-.=\"'\t\n/x\x1b\u202e\udcff")), max_size=30)
BLANKS = re.compile(r"[ \t]+")


@given(ANY)
def test_markdown_reads_as_the_text_that_went_in(text):
    written = said.markdown(text)
    assert "\n" not in written
    for form, tags in (("- {}", {"ul", "li"}), ("# {} end", {"h1"}), ("begin {} end", {"p"}), ("**begin {} end**", {"p", "strong"})):
        found = rendered(form.format(written))
        assert set(re.findall(r"</?([a-z0-9]+)", found)) <= tags, (written, found)
        expected = form.replace("**", "").removeprefix("- ").removeprefix("# ").format(said.one_line(text))
        assert BLANKS.sub(" ", text_of(found)).strip() == BLANKS.sub(" ", expected).strip(), written


@given(strategies.lists(ANY, min_size=2, max_size=3))
def test_a_cell_of_a_table_of_markdown_reads_as_the_text_that_went_in(texts):
    lines = ["| " + " | ".join(map(said.markdown_cell, texts)) + " |", "|" + "---|" * len(texts)]
    found = rendered("\n".join(lines))
    cells = [BLANKS.sub(" ", text_of(c)).strip() for c in re.findall(r"<th[^>]*>(.*?)</th>", found, re.DOTALL)]
    assert cells == [BLANKS.sub(" ", said.one_line(t)).strip() for t in texts], lines
    assert set(re.findall(r"</?([a-z0-9]+)", found)) == {"table", "thead", "tr", "th"}


@pytest.mark.parametrize("plain", ["ruby_small 2 of 3", "0.82 [0.79, 0.85]", "<0.01", ">0.99", "a: time (s)", "(time − a)(space − c) = b", "i * 50", "C:\\new", "p < 3 & q", NASTY.replace("<b>&", "")])
def test_markdown_leaves_what_means_nothing_as_it_is(plain):
    assert said.markdown_cell(plain) == plain


def test_control_characters_are_seen_and_do_nothing():
    assert said.visible("a\x1b[2J\x07\rb\u202ec\udcff\x9b\n\td") == "a\\x1b[2J\\x07\\rb\\u202ec\\udcff\\x9b\n\td"
    assert said.one_line(" a\n\n\tb\x00 ") == "a b\\x00"
    ElementTree.fromstring(f"<a b=\"{said.xml(NASTY + chr(27) + chr(0xfffe))}\">{said.xml(CLOSES)}</a>")


def test_what_the_outputs_encoding_lacks_is_written_out():
    code = "import sys; from ashlar.said import say; say('caf\\u00e9 \\U0001f600 \\udce9'); say('done')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, env={**os.environ, "PYTHONIOENCODING": "latin-1"})
    assert done.returncode == 0 and done.stdout == b"caf\xe9 \\U0001f600 \\udce9\ndone\n"


# ── Every form of a report ─────────────────────────────────────────────────

@pytest.fixture
def nasty_page():
    """Programs and variants whose names mean something everywhere, with failures, warnings and all tables."""
    experiment = two_variants(programs=(NASTY, CLOSES), names=("[old]", NASTY))
    rng = np.random.default_rng(1)
    runs = [make_run(block, p.name, v, None, t * rng.uniform(0.99, 1.01), 100, role) for block in range(8) for p in experiment.programs
            for v, t, role in (("[old]", 1.0, "main"), (NASTY, 0.5, "main"), ("[old]", 1.0, "twin"))]
    runs.append(make_run(8, NASTY, NASTY, None, 1.0, 100, state="crashed", reason=f"it said {CLOSES} <i>", errors_tail="\x1b[31m<script>alert(1)</script>"))
    return page.build(experiment, {"cpu": f"<cpu> {CLOSES}", "time": "now"}, runs, analyse(experiment, runs))


class Reader(html.parser.HTMLParser):
    """The text of a page, and the names of its elements."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.text, self.attributes = set(), "", []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.elements.add(tag)
        self.attributes += [name for name, _ in attributes]

    def handle_data(self, data):
        self.text += data


def test_a_page_shows_such_names_and_takes_none_for_an_element(nasty_page):
    read = Reader(html_report.render(nasty_page))
    assert not {"b", "i", "script", "cpu"} & read.elements
    assert read.text.count(NASTY) > 20 and CLOSES in read.text and "<script>alert(1)</script>" in read.text and "\\x1b[31m" in read.text


def test_pictures_are_xml_with_such_names(nasty_page):
    for figure in nasty_page.figures:
        root = ElementTree.fromstring(write.svg_file(figure.chart))
        assert NASTY in "".join(root.itertext())
        assert {e.tag.rpartition("}")[2] for e in root.iter()} <= {"svg", "style", "rect", "g", "text", "line", "path", "circle", "title", "polyline", "polygon"}


def test_markdown_shows_such_names(nasty_page):
    found = rendered(markdown_report.render(nasty_page))
    assert set(re.findall(r"</?([a-z0-9]+)", found)) <= {"h1", "h2", "ul", "li", "p", "table", "thead", "tbody", "tr", "th", "td", "hr"}
    assert text_of(found).count(NASTY) > 8 and CLOSES in text_of(found)


def test_programs_whose_names_differ_in_a_bracket_keep_a_picture_each(tmp_path, nasty_page):
    experiment, runs = simulated_sweep(np.random.default_rng(3), {"old": (1.0, 2.0, 50), "new": (0.9, 2.0, 50)}, blocks=6)
    names = ("a [1]", "a (1)")
    experiment = dataclasses.replace(experiment, programs=tuple(dataclasses.replace(experiment.programs[0], name=n) for n in names))
    runs = [dataclasses.replace(r, program=n) for r in runs for n in names]
    made = page.build(experiment, {}, runs, analyse(experiment, runs))
    written = write.write(made, tmp_path / "e", ["svg"])
    assert len(set(written)) == len(written) == len(made.figures) >= 4
    assert sum(n in path.read_text() for n in names for path in written) >= 4


# ── The command on a terminal and in a pipe ────────────────────────────────

def on_terminal(folder, *arguments) -> tuple[int, str]:
    """The command on a terminal of its own, 200 columns wide; its output without what moves and colours."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 200, 0, 0))
    process = subprocess.Popen([sys.executable, "-m", "ashlar_lab", *map(str, arguments)], cwd=folder, stdin=theirs, stdout=theirs, stderr=theirs,
                               env={**os.environ, "COLUMNS": "200"})
    os.close(theirs)
    shown = b""
    while select.select([ours], [], [], 120)[0]:
        try:
            got = os.read(ours, 65536)
        except OSError:  # nobody has the other end any more
            break
        if not got:
            break
        shown += got
    os.close(ours)
    return process.wait(), re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode())


WORK = f"{PYTHON} -S -c 'import time; time.sleep(0.06); print(1)'"


@pytest.mark.parametrize("name", [NASTY, CLOSES.replace("/", "\\"), "[red]", "[red] name"])
def test_such_names_are_shown_on_a_terminal_and_in_a_pipe(ashlar, tmp_path, name):
    variants = ("-v", f"{name}=command:{WORK}", "-v", f"[blue]=command:{WORK}")
    status, shown = on_terminal(tmp_path, "compare", *variants, "--blocks", "2", "--name", f"both {name}", "--store", "t.ashlar")
    assert status == 0 and "Traceback" not in shown, shown
    shown = re.sub(r"\s+", " ", shown)  # titles are as wide as their tables
    assert re.search(r"• \[blue\], CPU time: [0-9.]+ of " + re.escape(name) + "'s", shown), "the verdict"
    done = ashlar("report", "t.ashlar")
    assert done.returncode == 0 and name in text_of(rendered(done.stdout.replace("\n- ", "\n\n- ")))


@pytest.mark.parametrize("name", [NASTY, CLOSES, "[red]", ":smile:"])
def test_tables_drawn_on_a_terminal_show_such_titles_heads_cells_and_notes(name):
    shown = drawn(Table("t", f"{name} 1", (f"{name} 2", f"{name} 3"), ((f"{name} 4", f"{name} 5"),), f"{name} 6"), 200)
    assert all(f"{name} {i}" in shown for i in range(1, 7))


def test_columns_that_are_too_wide_are_folded_and_nothing_is_lost():
    shown = drawn(Table("t", "", ("what", "n"), (("x" * 100, "12"), ("y", "3"))), 40).splitlines()
    assert max(map(len, shown)) <= 40 and "".join(shown).count("x") == 100 and shown[2].endswith(" 12")


@pytest.mark.parametrize("name", [NASTY, CLOSES, "[red]", ":smile:"])
def test_lines_of_the_progress_show_such_names(name, capsys, monkeypatch):
    from ashlar_lab.measure.progress import Progress

    monkeypatch.setenv("COLUMNS", "200")
    progress = Progress(two_variants())
    progress.ended(make_run(0, "p", f"{name} 7", None, 1.0, 1.0, state="crashed", reason=f"{name} 8"))
    progress.says(f"{name} 9")
    said_there = capsys.readouterr().err
    assert all(f"{name} {i}" in said_there for i in (7, 8, 9))


def test_in_a_pipe_each_block_that_is_whole_has_a_line_and_a_minute_has_one(capsys, monkeypatch):
    from ashlar_lab.experiment import command_line
    from ashlar_lab.experiment.model import Stop
    from ashlar_lab.measure.progress import Progress

    experiment = command_line.build(["a=env:X=1", "b=env:X=2"], [], ["true"], name=None, baseline=None, stop=Stop(4, 4))

    def lines(every_s: float, **options) -> list[str]:
        monkeypatch.setattr(Progress, "LINE_EVERY_S", every_s)
        with Progress(experiment, **options) as progress:
            for block in range(3):
                for arm in experiment.order(block):
                    progress.ended(make_run(block, arm.program, arm.variant, arm.value, 1.0, 1.0, arm.role))
        return capsys.readouterr().err.splitlines()

    assert lines(0.0) == ["1 of at most 4 blocks, at most 0:09 left", "2 of at most 4 blocks, at most 0:06 left", "3 of at most 4 blocks, at most 0:03 left"]
    assert lines(60.0) == [] and lines(0.0, quiet=True) == []


@pytest.mark.parametrize(("wish", "shown"), [("1", "• fine\n\nwarning: odd\n"), ("", "\x1b[1;32m•\x1b[0m fine\n\n\x1b[33mwarning:\x1b[0m odd\n")])
def test_who_wants_no_colours_gets_none(capsys, monkeypatch, wish, shown):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("NO_COLOR", wish)
    show_parts(["fine"], [], ["odd"])
    assert capsys.readouterr().out == shown


def test_a_run_that_fails_is_named_on_a_terminal(tmp_path):
    status, shown = on_terminal(tmp_path, "compare", "-v", f"good=command:{WORK}", "-v", f"[x] bad=command:{PYTHON} -S -c 'raise SystemExit(3)'",
                                "--blocks", "1", "--name", "fails")
    assert status == 0 and re.search(r"crashed: \S+ · \[x\] bad: it ended with exit status 3", shown)


def test_what_a_program_prints_does_nothing_to_the_terminal(ashlar, tmp_path):
    code = r"import sys; sys.stderr.write('\x1b]0;title\x07[bold] no\tluck\n'); sys.exit(3)"
    done = ashlar("compare", "-v", "glibc", "-v", "env", "--name", "e", "--", PYTHON, "-S", "-c", code)
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert r"It wrote: \x1b]0;title\x07[bold] no luck" in done.stderr and "\x1b" not in done.stderr


@pytest.mark.parametrize("name", ["a\x1bb", "a\rb", "a\u2028b", "caf\udce9"])
def test_a_name_with_a_control_character_is_refused(ashlar, tmp_path, name):
    done = ashlar("compare", "-v", f"{name}=env", "-v", "glibc", "--name", "e", "--", "sleep", "0.06")
    assert done.returncode == 2 and "the variant name" in done.stderr and done.stderr.count("\n") == 1


def test_a_file_name_that_is_no_utf_8_is_printed(ashlar, tmp_path):
    assert ashlar("compare", "-v", f"[a]=command:{WORK}", "--blocks", "1", "--name", "e", "-q").returncode == 0
    (tmp_path / "e.ashlar").rename(os.fsdecode(os.fsencode(tmp_path) + b"/\xff [x].ashlar"))
    done = ashlar("report", "\udcff [x].ashlar", "--form", "json")
    assert done.returncode == 0 and "wrote \\udcff [x].json" in done.stdout
    assert json.loads((tmp_path / "\udcff [x].json").read_text())["title"]


def test_a_boot_of_files_with_such_names(capsys):
    from ashlar.boot import report as boot
    from ashlar.boot.measure import Boot, Compiling, LoadedFile

    def filled(kind, **given):
        return kind(**{f.name: given.get(f.name, Compiling(0, 0, 0) if f.name in ("compiled", "from_binary") else [] if f.name in ("command", "files") else "" if f.type == "str" else None if f.name == "code_cache" else 0)
                       for f in dataclasses.fields(kind)})
    files = [filled(LoadedFile, path=f"/app/{n}.rb") for n in ("[red]", "[/x]")]
    boot.show(filled(Boot, files=files, command=["ruby", "[/x]"], why="[/y]"), top=5, by="own")
    shown = capsys.readouterr().err
    assert "/app/[red].rb" in shown and "/app/[/x].rb" in shown and "ruby [/x]" in shown
