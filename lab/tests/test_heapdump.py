"""`ashlar retained`: the command on small dumps, its pages, and what it says of bad input."""

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import tracemalloc
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from ashlar import cli
from ashlar.errors import BadInput
from ashlar.retained import analyser, command, content, picture

pytestmark = pytest.mark.skipif(not (shutil.which("cargo") or shutil.which("cargo", path=str(Path.home() / ".cargo" / "bin"))),
                                reason="Rust's cargo builds the program that reads dumps")


@pytest.fixture(scope="module", autouse=True)
def built():
    """Builds the program first: no command waits for that."""
    analyser.program()


@pytest.fixture
def dump(tmp_path):
    """ObjectSpace.dump_all of a class Cache whose Hash keeps a hundred strings of a thousand bytes."""
    lines = [{"type": "ROOT", "root": "vm", "references": ["0x1000", "0x2000"]}]
    for address, name in (("0x1000", "Class"), ("0x1100", "String"), ("0x1200", "Hash")):
        lines.append({"address": address, "type": "CLASS", "slot_size": 160, "class": "0x1000", "name": name, "memsize": 200})
    lines.append({"address": "0x2000", "type": "CLASS", "slot_size": 160, "class": "0x1000", "name": "<Cache>", "references": ["0x3000", "0x1100", "0x1200"], "memsize": 160})
    strings = [hex(0x90000 + 40 * i) for i in range(100)]
    lines.append({"address": "0x3000", "type": "HASH", "slot_size": 160, "class": "0x1200", "references": strings, "memsize": 3160, "flags": {"old": True}})
    lines += [{"address": s, "type": "STRING", "slot_size": 40, "class": "0x1100", "memsize": 1040} for s in strings]
    lines.append({"address": "0x777700", "type": "STRING", "slot_size": 40, "class": "0x1100", "memsize": 40})
    path = tmp_path / "app.json"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_a_planted_cache_is_named_with_its_size_and_path(ashlar, dump):
    said = ashlar("retained", str(dump)).stdout
    assert "Hash at 0x3000 keeps 105 KiB" in said and "root vm → class \\<Cache> → Hash" in said
    assert re.search(r"\| Hash +\| +1 \| +160 bytes \| +2\.93 KiB \| +105 KiB \|", said)
    assert "warning: 1 objects of 40 bytes cannot be reached" in said


def test_why_and_class_are_answered_first(ashlar, dump):
    said = ashlar("retained", str(dump), "--why", "String", "--why", "0x3000", "--class", "Hash").stdout
    assert said.index("Objects of Hash that retain most") < said.index("Why objects of String are alive") < said.index("Why 0x3000 is alive")
    assert "root vm → class \\<Cache> → Hash → String" in said and "Classes by retained size" not in said
    assert "What must go for 0x3000 to be freed" in said


def test_a_folder_that_cannot_be_written_to_is_no_reason_to_show_nothing(dump, capsys, monkeypatch):
    def refused(base):
        raise BadInput("it cannot be written to")
    monkeypatch.setattr(command, "check_can_write", refused)
    parser, _ = cli._parser()
    command.run(parser.parse_args(["retained", str(dump)]))
    assert "Hash at 0x3000 keeps 105 KiB" in capsys.readouterr().out
    with pytest.raises(BadInput):
        command.run(parser.parse_args(["retained", str(dump), "--form", "html"]))


def test_reports_and_map_are_whole_and_ask_for_nothing(ashlar, dump, tmp_path):
    with gzip.open(tmp_path / "app.dump.gz", "wb") as packed:
        packed.write(dump.read_bytes())
    done = ashlar("retained", str(tmp_path / "app.dump.gz"), "--form", "html,md,json", "--map", str(tmp_path / "map.svg"), "-q")
    assert done.returncode == 0 and done.stdout == ""
    page = (tmp_path / "app-retained.html").read_text()
    assert "&lt;Cache&gt;" in page and "<Cache>" not in page and "http://" not in page.replace("http://www.w3.org/2000/svg", "") and "<script" not in page
    assert "prefers-color-scheme:dark" in page.replace(" ", "") and "Map of the heap" in page
    for drawing in re.findall(r"<svg.*?</svg>", page, re.S):
        ElementTree.fromstring(drawing)
    ElementTree.fromstring((tmp_path / "map.svg").read_text())
    told = json.loads((tmp_path / "app-retained.json").read_text())
    assert told["largest"][0]["retained_bytes"] >= 107_160
    assert not list(tmp_path.glob("*.new")) and not list(tmp_path.glob(".*.new"))


def test_bad_input_gets_one_line_status_2_and_leaves_nothing(ashlar, dump, tmp_path):
    (tmp_path / "no.dump").write_text("hello\n")
    (tmp_path / "cut.json").write_bytes(dump.read_bytes()[:-20])
    (tmp_path / "cut.gz").write_bytes(gzip.compress(dump.read_bytes())[:-30])
    (tmp_path / "mixed.json").write_text(dump.read_text().replace('{"address": "0x3000"', "0x3000", 1))
    before = sorted(tmp_path.iterdir())
    for arguments, complaint in [
        (("missing.dump",), "there is no dump missing.dump; GC.config(dump:"),
        (("no.dump",), "no.dump: not a dump of a Ruby heap"),
        (("cut.json",), "the dump ends too early, in line 107"),
        (("cut.gz",), "cut.gz: the gzip file ends too early"),
        (("mixed.json",), "line 6 is no object of ObjectSpace.dump_all"),
        (("app.json", "--why", "Strin"), "Strin: no class of this name is in the dump; similar ones are String"),
        (("app.json", "--why", "0x1"), "0x1: no object of the dump is at this address"),
        (("app.json", "--form", "docx"), "--form has 'docx'; give some of html,md,json"),
        (("app.json", "--map", "map.png"), "--map map.png: a file that ends with .svg or .html is wanted"),
        (("app.json", "--map", "/no/such/map.svg"), "there is no such folder"),
        (("app.json", "--form", "html", "--output", "/no/such/x"), "there is no such folder"),
    ]:
        done = ashlar("retained", *arguments)
        assert done.returncode == 2, arguments
        assert complaint in done.stderr and done.stderr.count("\n") == 1 and done.stderr.startswith("ashlar: "), done.stderr
        assert sorted(tmp_path.iterdir()) == before


def test_a_file_may_have_any_name(ashlar, dump, tmp_path):
    name = os.fsdecode(b"caf\xe9.json")
    dump.rename(tmp_path / name)
    done = ashlar("retained", name, "--form", "md")
    assert done.returncode == 0 and "Hash at 0x3000 keeps 105 KiB" in done.stdout, done.stderr
    assert (tmp_path / os.fsdecode(b"caf\xe9-retained.md")).exists()
    done = ashlar("retained", name, "--why", os.fsdecode(b"caf\xe9"))
    assert done.returncode == 2 and done.stderr.startswith("ashlar: caf\ufffd: no class of this name") and done.stderr.count("\n") == 1


def test_a_dump_may_come_through_a_descriptor_of_the_shell(tmp_path, dump):
    """As <(zcat app.dump.gz) gives it."""
    for text in ('exec "$0" -m ashlar retained <(cat "$1")', 'exec "$0" -m ashlar retained /dev/fd/3 3<"$1"'):
        done = subprocess.run(["bash", "-c", text, sys.executable, dump], cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0 and "Hash at 0x3000 keeps 105 KiB" in done.stdout, done.stderr


def branch(label, retained_bytes, *below):
    return {"label": label, "objects": 1, "shallow_bytes": 40, "retained_bytes": retained_bytes, "below": list(below)}


def test_the_rows_of_the_tree_are_the_branches_that_retain_most():
    chain = branch("deep", 500)
    for depth in range(80):
        chain = branch(f"deep {depth}", 501 + depth, chain)
    rows, left_out = content._largest_branches([chain, branch("wide", 550, branch("in it", 550)), branch("small", 400)], 1000)
    labels = [row[0] for row in rows]
    assert len(rows) == 60 and left_out == 24
    assert labels[:2] == ["deep 79", "· deep 78"] and labels[-2:] == ["wide", "· in it"] and labels[-3].endswith("deep 22")


def test_a_map_takes_no_more_memory_for_more_blocks():
    blocks = [["released", 10_000_000, 0, 0.0, None], ["cells", 1, 40, 0.5, 1.0], ["spare", 2_000_000, 0, 0.0, None]]
    tracemalloc.start()
    try:
        drawn = picture.heap_map(blocks)
        assert tracemalloc.get_traced_memory()[1] < 40_000_000
    finally:
        tracemalloc.stop()
    assert "each square is 1001 blocks of 64 KiB" in drawn and "empty, memory given back" in drawn


def test_neighbours_are_put_together_by_their_mean_and_what_most_of_them_are():
    blocks = [["cells", 3, 40, 0.5, 1.0], ["payloads", 4, 64, 1.0, None], ["spare", 3, 0, 0.0, None]]
    assert [picture._square(group) for group in picture._groups(blocks, 5)] == [("cells", 40, 0.7, 1.0), ("spare", 0, 1.0, None)]


def test_a_map_of_many_blocks_puts_neighbours_together_and_shows_every_use():
    blocks = [["cells", 30_000, 40, 0.5, 1.0], ["payloads", 10_000, 64, 0.9, None], ["span", 1000, 0, 1.0, None], ["spare", 2000, 0, 0.0, None], ["released", 500, 0, 0.0, None]]
    drawn = picture.heap_map(blocks)
    ElementTree.fromstring(drawn)
    assert "each square is 4 blocks of 64 KiB" in drawn and len(drawn) < 800_000
    for meaning in ("cells of 40 bytes", "payloads of 64 bytes", "payloads larger than half a block", "spare: empty, with memory", "50 % full", "all are old"):
        assert meaning in drawn
    assert drawn.count("M") > 3 * 43_500 / 4 - 3
