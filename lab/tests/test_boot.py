"""`ashlar boot`: files are counted as Ruby loads them, and what cannot be measured is one clear line."""

import dataclasses
import json
import os
import shutil
import subprocess
import sys

import pytest

from ashlar.boot import report
from ashlar.boot.measure import Boot, Compiling, LoadedFile

RUBY = os.environ.get("RUBY_STOCK") or shutil.which("ruby")
needs_ruby = pytest.mark.skipif(not RUBY, reason="no Ruby here: neither RUBY_STOCK is set nor ruby on the PATH")


def boot(*arguments, cwd=None):
    return subprocess.run([sys.executable, "-m", "ashlar", "boot", *arguments], capture_output=True, text=True, cwd=cwd)


@pytest.fixture
def program(tmp_path):
    (tmp_path / "main.rb").write_text("require_relative 'outer'\nrequire_relative 'outer'\nload './again.rb'\nputs Outer::VALUE\nexit 3\n")
    (tmp_path / "outer.rb").write_text("require_relative 'inner'\nmodule Outer\n  VALUE = Inner::ALL.size\nend\n")
    (tmp_path / "inner.rb").write_text("module Inner\n  ALL = Array.new(20_000) { |i| 'text' + i.to_s }\nend\n")
    (tmp_path / "again.rb").write_text("AGAIN = 1\n")
    return tmp_path


@needs_ruby
def test_each_file_is_counted_once_with_what_is_its_own(program):
    ended = boot("--json", "--", RUBY, "--disable-gems", "main.rb", cwd=program)
    assert ended.returncode == 3, ended.stderr
    out, told = ended.stdout.split("\n", 1)
    assert out == "20000"
    (found,) = json.loads(told)
    files = {os.path.basename(file["path"]): file for file in found["files"]}
    assert set(files) >= {"outer.rb", "inner.rb", "again.rb"}
    inner, outer = files["inner.rb"], files["outer.rb"]
    assert inner["own_objects"] > 40_000 > 20_000 > outer["own_objects"]
    assert outer["total_objects"] >= inner["total_objects"] and outer["total_ns"] >= inner["total_ns"]
    assert inner["depth"] == outer["depth"] + 1
    assert found["compiled"]["files"] >= 3 and found["compiled"]["objects"] > 0
    assert found["kept_objects"] > 20_000


@needs_ruby
def test_code_of_eval_requires_relative_to_the_file_that_eval_names(program):
    code = "require_relative 'inner'; puts Inner::ALL.size"
    (program / "main.rb").write_text(f"""eval("{code}", binding, File.expand_path("named.rb"), 1)\nbegin\n  eval("{code}")\nrescue LoadError\n  puts $!.message\nend\n""")
    ended = boot("--json", "--", RUBY, "--disable-gems", "main.rb", cwd=program)
    assert ended.stdout.splitlines()[:2] == ["20000", "cannot infer basepath"], ended.stderr


@needs_ruby
def test_tables_name_the_files_and_go_to_standard_error(program):
    ended = boot("--by", "objects", "--top", "3", "--", RUBY, "main.rb", cwd=program)
    assert ended.returncode == 3 and ended.stdout == "20000\n"
    assert "inner.rb" in ended.stderr and "collector" in ended.stderr and "files, by objects" in ended.stderr


@needs_ruby
def test_a_start_ends_with_warmup(program):
    if subprocess.run([RUBY, "-e", "exit Process.respond_to?(:warmup)"]).returncode:
        pytest.skip("this Ruby is older than 3.3, and has no Process.warmup")
    (program / "main.rb").write_text("require_relative 'inner'\nProcess.warmup\nrequire_relative 'outer'\nexit!\n")
    ended = boot("--json", "--", RUBY, "main.rb", cwd=program)
    (found,) = json.loads(ended.stdout)
    names = [os.path.basename(file["path"]) for file in found["files"]]
    assert found["why"] == "Process.warmup" and "inner.rb" in names and "outer.rb" not in names


@needs_ruby
def test_every_ruby_of_the_command_tells(program):
    (program / "main.rb").write_text(f"require_relative 'inner'\nsystem({RUBY!r}, 'outer.rb')\n")
    ended = boot("--json", "--", RUBY, "main.rb", cwd=program)
    assert len(json.loads(ended.stdout)) == 2


CACHED = os.environ.get("RUBY_INSIDE")


@pytest.mark.skipif(not CACHED, reason="RUBY_INSIDE names no Ruby with Ashlar inside")
def test_the_code_cache_tells_what_came_from_it(program, monkeypatch):
    monkeypatch.setenv("ASHLAR_CODE_CACHE", str(program / "code"))
    found = [json.loads(boot("--json", "--", CACHED, "main.rb", cwd=program).stdout.split("\n", 1)[1])[0] for _ in range(2)]
    cold, warm = found
    assert cold["code_cache"]["hits"] == 0 and cold["code_cache"]["kept"] >= 3 and cold["compiled"]["files"] >= 3
    assert warm["code_cache"]["hits"] >= 3 and warm["code_cache"]["misses"] == 0
    assert warm["compiled"]["files"] == 0 and 3 <= warm["from_binary"]["files"] < warm["code_cache"]["hits"]  # RubyGems comes first
    shown = boot("--", CACHED, "main.rb", cwd=program).stderr
    assert "code cache" in shown and "of compiling saved" in shown and "0 compiled, 0 kept" in shown


def test_code_that_ran_is_a_row_where_ruby_loads_code_when_it_first_runs():
    nothing = Compiling(0, 0, 0)
    found = Boot("its end", 1, ["a"], "ruby", "ashlar", 4, 200, 50, 10, 5, 1, 0, 9, nothing, nothing, [])
    rows = [row[0] for row in report._summary(found).rows]
    assert "code cache" not in rows
    counts = dict.fromkeys(("hits", "misses", "kept", "loaded_bytes", "saved_us", "file_bytes", "sequences", "ran_before", "loaded_later"), 0)
    assert [row[0] for row in report._code_cache(dataclasses.replace(found, code_cache=counts))] == ["code cache"]
    counts |= {"sequences": 27_118, "ran_before": 10_700, "loaded_later": 10_619}
    ran = report._code_cache(dataclasses.replace(found, code_cache=counts))[1]
    assert ran[:3] == ("code that ran", "10,619 loaded when it ran", "10,700 ran, earlier ones too")


def test_what_cannot_be_measured_is_one_clear_line():
    for arguments, said in [
        (["--", "/no/such/command"], "cannot run '/no/such/command': No such file or directory"),
        (["--", "true"], "no Ruby told what it loads"),
        (["--by", "name", "--", "true"], "--by name: own, total, objects, collecting is wanted"),
    ]:
        ended = boot(*arguments)
        assert ended.returncode != 0 and said in ended.stderr and "Traceback" not in ended.stderr, ended.stderr


def test_a_library_is_a_gem_a_part_of_rubys_own_or_a_folder():
    assert report.library("/x/gems/3.4.0/gems/rbs-3.8.0/lib/rbs.rb") == "rbs-3.8.0"
    assert report.library("/usr/lib/ruby/3.4.0/rdoc/markdown.rb") == "ruby: rdoc"
    assert report.library("/usr/lib/ruby/3.4.0/set.rb") == "ruby: set"
    assert report.library("/srv/app/models/user.rb") == "/srv/app/models"
    assert report.short("/x/gems/3.4.0/gems/rbs-3.8.0/lib/rbs.rb") == "rbs-3.8.0/lib/rbs.rb"
    assert report.short("/usr/lib/ruby/3.4.0/rdoc/markdown.rb") == "rdoc/markdown.rb"


def test_shares_are_of_the_cpu_time():
    nothing = Compiling(0, 0, 0)
    found = Boot("its end", 1, ["a"], "ruby", "ashlar", 4, 200, 50, 10, 5, 1, 0, 9, nothing, nothing, [LoadedFile("a", 1, 1, 1, 1, 1, 0, 0)])
    assert found.collecting_share == 0.25
