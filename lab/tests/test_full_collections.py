"""A full collection looks at the whole heap. A major one may pass over settled cells, and is called full nowhere."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from heap_image import Program, publish
from prometheus_client.openmetrics import parser as openmetrics_format

from ashlar.heap import difference, difference_tables, html, image, openmetrics, profile, top
from ashlar.trying import collector
from ashlar_lab.report.markdown import table_text

PROGRAM = """\
# %s
5.times { GC.start(full_mark: false) }
GC.start
GC.config(profile: "now.heap") if ENV["ASHLAR_PROFILE"]
GC.disable
puts GC.stat.values_at(:minor_gc_count, :major_gc_count, :complete_gc_count).join(" ")
""" % ("x" * 100)


def measured(tells_full: bool = True) -> Program:
    """Of nine collections three are minor, four major and two full."""
    program = Program(pid=os.getpid(), tells_full=tells_full)
    program.allocate([("Cache#put", "/srv/app/cache.rb", 12)], "String", 640, 50)
    for kind in ("minor", "major", "full", "major", "minor", "major", "minor", "full", "major"):
        program.collect(full=kind == "full", major=kind == "major")
    return program


@pytest.fixture(params=[True, False])
def live(request):
    """(whether the writer tells full ones, a reading of this process)"""
    descriptor = publish(measured(request.param).write())
    yield request.param, top.read(os.getpid())
    os.close(descriptor)


def read(tmp_path, name: str, program: Program) -> profile.Profile:
    (tmp_path / name).write_bytes(program.write())
    return profile.from_image(image.read_file(tmp_path / name))


def test_the_screen_and_openmetrics_tell_them_apart_or_do_not_name_them(live):
    tells, reading = live
    shown = dict(top.rows(reading, None))["collections"]
    assert shown.endswith("3 minor, 4 major and 2 full so far" if tells else "3 minor and 6 others so far")
    families = {f.name: f.samples for f in openmetrics_format.text_string_to_metric_families(openmetrics.render([reading]))}
    assert [s.value for name in ("minor", "major", "full") for s in families[f"ashlar_{name}_collections"]] == ([3, 6, 2] if tells else [3, 6])


@pytest.mark.parametrize("tells", [True, False])
def test_pages_and_differences_count_full_ones_alone(tmp_path, tells):
    early = Program(pid=os.getpid(), tells_full=tells)
    early.collect()
    found = difference.compare(read(tmp_path, "a.heap", early), read(tmp_path, "b.heap", measured(tells)))
    assert found.collections == 8 and found.full_collections == (2 if tells else None)
    assert ("8 collections (2 full)" in difference_tables.facts(found)[0]) == tells
    assert json.loads(difference_tables.as_json(found))["full_collections"] == found.full_collections
    assert f"9, {2 if tells else 'unknown'}" in table_text(html._counted(found.after))


def test_ruby_on_ashlar_tells_them_apart_in_a_profile_and_in_a_boot(ashlar, tmp_path, ruby):
    """With the switch no-minor each minor collection is a major one."""
    program, library = ruby
    (tmp_path / "app.rb").write_text(PROGRAM)
    environment = {**os.environ, "RUBY_GC_LIBRARY": library, "ASHLAR_STRESS": "no-minor", "ASHLAR_SPACE_OVERHEAD": "1000"}
    done = subprocess.run([program, "--disable-gems", "app.rb"], cwd=tmp_path, capture_output=True, text=True, timeout=60, env={**environment, "ASHLAR_PROFILE": "end.heap"})
    assert done.returncode == 0, done.stderr
    minor, major, full = map(int, done.stdout.split())
    assert major >= full + 3 and full >= 1
    numbers = json.loads(ashlar("heap", "now.heap", "--form", "json", "--output", "-").stdout)["numbers"]
    assert (numbers["minor_count"], numbers["major_count"], numbers["full_count"]) == (minor, major, full)
    booted = subprocess.run([sys.executable, "-m", "ashlar", "boot", "--json", "--", program, "--disable-gems", "app.rb"], cwd=tmp_path, capture_output=True,
                            text=True, timeout=60, env=environment)
    out, told = booted.stdout.split("\n", 1)
    minor, major, full = map(int, out.split())
    (found,) = json.loads(told)
    assert major >= full + 3 and found["full_collections"] == full


def tried(tmp_path, program: str, **environment) -> tuple[collector.Collected, tuple[int, int]]:
    """What `ashlar try` counts of a program, and the major and the full ones that it printed."""
    probe = Path(collector.__file__).with_name("probe.rb")
    done = subprocess.run([program, "--disable-gems", f"-r{probe}", "-e", PROGRAM], capture_output=True, text=True, timeout=60,
                          env={**os.environ, "ASHLAR_TRY_FOLDER": str(tmp_path), **environment})
    assert done.returncode == 0, done.stderr
    _, major, full = (int(n) if n else None for n in done.stdout.rstrip("\n").split(" "))
    return collector.read(tmp_path), (major, full)


def test_a_try_of_ashlar_tells_them_apart(tmp_path, ruby):
    found, (major, full) = tried(tmp_path, ruby[0], RUBY_GC_LIBRARY=ruby[1], ASHLAR_STRESS="no-minor", ASHLAR_SPACE_OVERHEAD="1000")
    assert (found.major, found.full) == (major, full) and major >= full + 3 and found.collections >= major


@pytest.mark.skipif(not shutil.which("ruby"), reason="no Ruby on the PATH")
def test_of_another_collector_every_major_one_is_full(tmp_path):
    found, (major, full) = tried(tmp_path, shutil.which("ruby"))
    assert full is None and found.major == found.full == major > 0 and found.collections > major
