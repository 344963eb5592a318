"""`ashlar boot`: files are counted as Ruby loads them, and what cannot be measured is one clear line."""

import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ashlar.boot import measure, report
from ashlar.boot.measure import Boot, Compiling, LoadedFile

pytestmark = pytest.mark.rubies
RUBY = os.environ.get("RUBY_STOCK") or shutil.which("ruby")
needs_ruby = pytest.mark.skipif(not RUBY, reason="no Ruby here: neither RUBY_STOCK is set nor ruby on the PATH")


def boot(*arguments, cwd=None, **environment):
    return subprocess.run([sys.executable, "-m", "ashlar", "boot", *arguments], capture_output=True, text=True, cwd=cwd, env={**os.environ, **environment})


def told(ended):
    """What the only Ruby of a run told with --json, and what was printed before."""
    out, _, json_text = ended.stdout.partition("[\n {")
    (found,) = json.loads("[{" + json_text)
    return out, found


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
def test_the_observer_may_be_installed_where_a_name_has_a_blank(program):
    shutil.copytree(Path(measure.__file__).parents[1], program / "a b/ashlar")
    ended = boot("--json", "--", RUBY, "--disable-gems", "main.rb", cwd=program, PYTHONPATH=str(program / "a b"))
    assert ended.returncode == 3, ended.stderr
    assert "inner.rb" in {os.path.basename(file["path"]) for file in told(ended)[1]["files"]}


@needs_ruby
def test_code_of_eval_requires_relative_to_the_file_that_eval_names(program):
    code = "require_relative 'inner'; puts Inner::ALL.size"
    (program / "main.rb").write_text(f"""eval("{code}", binding, File.expand_path("named.rb"), 1)\nbegin\n  eval("{code}")\nrescue LoadError\n  puts $!.message\nend\n""")
    ended = boot("--json", "--", RUBY, "--disable-gems", "main.rb", cwd=program)
    assert ended.stdout.splitlines()[:2] == ["20000", "cannot infer basepath"], ended.stderr


@needs_ruby
@pytest.mark.parametrize("gems", [[], ["--disable-gems"]])
def test_a_file_finds_its_caller_as_without(program, gems):
    """As Sinatra looks for the file of an application, and as `warn` names a line."""
    for name in "abcde":
        (program / f"{name}.rb").write_text("puts caller.reject { |line| line.start_with?('<internal:') }.first[/[^:]+/]\nwarn 'here', uplevel: 1\n")
    (program / "main.rb").write_text("""require_relative 'a'\nrequire './b'\nload './c.rb'\nKernel.require_relative 'd'\nKernel.load 'e.rb'\n""")
    alone = subprocess.run([RUBY, *gems, "main.rb"], capture_output=True, text=True, cwd=program)
    assert alone.stdout == 5 * "main.rb\n" and alone.stderr.splitlines()[4] == "main.rb:5: warning: here"
    ended = boot("--json", "--", RUBY, *gems, "main.rb", cwd=program)
    assert (told(ended)[0], ended.stderr) == (alone.stdout, alone.stderr)


@needs_ruby
def test_load_and_the_methods_of_kernel_answer_as_rubys_own_and_are_counted(program):
    (program / "lib").mkdir()
    (program / "lib/again.rb").write_text("AGAIN = 1\n")
    (program / "main.rb").write_text("""$LOAD_PATH.unshift File.expand_path("lib")
def (RubyVM::InstructionSequence).load_iseq(path) = nil
p load("again.rb"), load("outer.rb", true), Kernel.load("./inner.rb", Module.new), Kernel.require_relative("inner"), require_relative("inner")
""")
    ended = boot("--json", "--", RUBY, "--disable-gems", "-w", "main.rb", cwd=program)
    assert ended.stderr == ""
    out, found = told(ended)
    assert out == "true\ntrue\ntrue\nfalse\nfalse\n"
    paths = [Path(file["path"]).relative_to(program).as_posix() for file in found["files"] if file["depth"] == 0]
    assert paths == ["lib/again.rb", "outer.rb", "inner.rb"]


@needs_ruby
def test_a_ractor_loads_files_as_without(program):
    (program / "ractor.rb").write_text("""Warning[:experimental] = false
ractor = Ractor.new do
  [require("./outer"), require_relative("again"), Kernel.require_relative("again"), Kernel.require("./outer"), load("./again.rb")]
end
p ractor.respond_to?(:value) ? ractor.value : ractor.take
""")
    alone = subprocess.run([RUBY, "ractor.rb"], capture_output=True, text=True, cwd=program)
    if alone.returncode:
        pytest.skip("Ractors of this Ruby load no files")
    out, found = told(boot("--json", "--", RUBY, "ractor.rb", cwd=program))
    assert out == alone.stdout == "[true, true, false, false, true]\n"
    assert {"outer.rb", "inner.rb"} <= {os.path.basename(file["path"]) for file in found["files"]}


@needs_ruby
def test_names_and_arguments_may_have_any_bytes(program):
    (program / os.fsdecode(b"bad\xff.rb")).write_text("BAD = 1\n")
    (program / "main.rb").write_text("Dir['./bad*'].each { |file| load file }\nexit 3\n")
    ended = boot("--json", "--", RUBY, "main.rb", "gr\u00fcn", b"\xfe", cwd=program, LANG="C", LC_ALL="C")
    assert (ended.returncode, ended.stderr) == (3, "")
    _, found = told(ended)
    assert found["command"] == ["main.rb", "gr\u00fcn", "\ufffd"] and found["files"][-1]["path"].endswith("bad\ufffd.rb")


@needs_ruby
def test_a_report_that_cannot_be_written_is_one_line_and_the_program_s_status_stays(program):
    hooks = Path(report.__file__).with_name("boot.rb")
    ended = subprocess.run([RUBY, "-r", hooks, "main.rb"], capture_output=True, text=True, cwd=program,
                           env={**os.environ, "ASHLAR_BOOT_REPORT": "/no/such/folder/boot"})
    assert (ended.returncode, ended.stdout) == (3, "20000\n")
    assert "cannot report what it loaded: No such file or directory" in ended.stderr and ended.stderr.count("\n") == 1


@needs_ruby
def test_being_told_to_end_is_told_to_the_command_and_the_report_is_there(program):
    (program / "main.rb").write_text("require_relative 'inner'\n$stdout.sync = true\nputs 'ready'\nsleep 60\n")
    running = subprocess.Popen([sys.executable, "-m", "ashlar", "boot", "--json", "--", RUBY, "main.rb"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=program)
    assert running.stdout.readline() == "ready\n"
    running.send_signal(signal.SIGTERM)
    out, _ = running.communicate(timeout=30)
    (found,) = json.loads(out)
    assert running.returncode == 128 + signal.SIGTERM and "inner.rb" in [os.path.basename(file["path"]) for file in found["files"]]


SLEPT = ("unshare", "--fork", "--time", "--boottime", "100000")  # as on a machine that has slept for so many seconds


@needs_ruby
@pytest.mark.skipif(subprocess.run(["sh", "-c", f"{' '.join(SLEPT)} true"], stderr=subprocess.DEVNULL).returncode != 0, reason="no right to a namespace of times here")
def test_the_sleep_of_a_machine_is_not_in_the_time_of_a_start(program):
    _, found = told(boot("--json", "--", *SLEPT, RUBY, "main.rb", cwd=program))
    assert 0 < found["wall_ns"] < 60e9


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
