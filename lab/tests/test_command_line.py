"""What one line can say: servers, goals, several programs, curves; its TOML; its completion; the bases of Ruby."""

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import PYTHON, VERBS
from hypothesis import given, settings
from hypothesis import strategies as st

from ashlar.errors import BadInput
from ashlar_lab import variants
from ashlar_lab.experiment import command_line, toml, write_toml
from ashlar_lab.experiment.model import Contrast, Experiment, Program, Server, Stop, Variant


def built(*specs, command=("./prog",), **rest):
    return command_line.build(list(specs), rest.pop("knobs", []), list(command), name=None, baseline=None, stop=Stop(), **rest)


def test_programs_and_a_server_stand_beside_the_command():
    server = "ruby app.rb {port}", Server(0, 200, connections=8, paths=("/a",))
    found = built("glibc", "b=glibc:arena_max=1", programs=["sort=./sort --size 10"], server=server)
    assert [(p.name, p.command) for p in found.programs] == [("prog", ("./prog",)), ("sort", ("./sort", "--size", "10")), ("ruby", ("ruby", "app.rb", "{port}"))]
    assert found.programs[2].server == Server(0, 200, 10.0, 1.0, ("/a",), 8)


def test_a_goal_is_asked_of_every_variant_or_of_one():
    found = built("glibc", "b=glibc:arena_max=1", "c=glibc:arena_max=2", goals=["peak_mib<=0.9", "c:cpu_s <= 1"])
    assert [(c.metric, c.variant, c.against) for c in found.contrasts] == [("peak_mib", "b", "glibc"), ("peak_mib", "c", "glibc"), ("cpu_s", "c", "glibc")]
    assert found.programs[0].goals == {"b: peak_mib / glibc": 0.9, "c: peak_mib / glibc": 0.9, "c: cpu_s / glibc": 1.0}


@pytest.mark.parametrize(("arguments", "complaint"), [
    (("--goal", "fast"), "is not of the form METRIC<=RATIO"),
    (("--goal", "x:cpu_s<=1"), "there is no variant 'x' beside the baseline"),
    (("-p", "nameless"), "is not of the form NAME=COMMAND"),
    (("-p", "a='unclosed"), "is no command"),
    (("--server", "prog"), "put {port} where the port goes"),
    (("--server", "prog {port}"), "--server needs --rate"),
    (("--rate", "5"), "--rate says how a server is driven"),
    (("--path", "/x"), "--path says how a server is driven"),
    (("-k", "growth"), "no variant understands the knob 'growth'"),
])
def test_bad_input_gets_one_line(ashlar, tmp_path, arguments, complaint):
    rate = ("--rate", "5") if arguments[:2] == ("--server", "prog") else ()
    done = ashlar("compare", "-v", "glibc", *arguments, *rate, "--", "sleep", "0.06")
    assert done.returncode == 2 and complaint in done.stderr and done.stderr.count("\n") == 1 and list(tmp_path.iterdir()) == []


def test_a_server_of_the_command_line_is_measured_against_its_goal(ashlar):
    done = ashlar("compare", "-v", "a=env:X=1", "-v", "b=env:X=2", "--blocks", "2", "--duration", "1", "--rate", "50", "--goal", "p50_ms<=100", "--server",
                  f"{PYTHON} -m http.server {{port}} --bind 127.0.0.1 --directory /proc/sys")
    assert done.returncode == 0, done.stderr
    assert "b: p50_ms / a" in done.stdout and "Requests (1/s)" in done.stdout


def test_init_writes_what_compare_would_measure(ashlar, tmp_path):
    line = ("-v", "old=env:KIND=${HOME}", "-v", "new=env:KIND=b", "-p", "sort=sort --version", "--goal", "cpu_s<=0.9", "--blocks", "3", "--space", "mean_mib",
            "--ignore-lines", "^took", "--name", "my test", "--", "printf", 'a "quoted" \\ word ${NOT_SET}\t')
    done = ashlar("init", *line)
    assert done.returncode == 0 and "my-test.toml" in done.stdout, done.stderr
    found = toml.load(str(tmp_path / "my-test.toml"))
    assert found.programs[0].command == ("printf", 'a "quoted" \\ word ${NOT_SET}\t') and found.variants[0].settings == {"KIND": "${HOME}"}
    assert found.programs[0].directory == str(tmp_path) and found.space_metric == "mean_mib" and found.stop.blocks_max == 3
    written = (tmp_path / "my-test.toml").read_text()
    assert ashlar("init", *line).returncode == 0
    other = ashlar("init", "--blocks", "9", *[part for part in line if part not in ("--blocks", "3")])
    assert other.returncode == 2 and "exists" in other.stderr and other.stderr.count("\n") == 1, other.stderr
    assert (tmp_path / "my-test.toml").read_text() == written
    assert ashlar("init", "--file", "-", *line).stdout == (tmp_path / "my-test.toml").read_text()


word = st.text(st.characters(blacklist_categories=("Cs", "Cc")) | st.sampled_from("${}\"'\\\n\t\x7f"), max_size=12)
name = st.text("abcdefgh.-", min_size=1, max_size=8)
words = st.lists(word, max_size=3).map(tuple)
tables = st.dictionaries(st.from_regex(r"[A-Z][A-Z_]{0,6}", fullmatch=True), word, max_size=2)
number = st.floats(0.001, 1e6, allow_nan=False)
whole_experiments = st.builds(
    Experiment, name=word, title=word.filter(bool), note=word, baseline=st.just("a"), seed=st.integers(0, 99), stop=st.builds(Stop, st.integers(1, 5), st.integers(5, 9), st.just(0.05), st.none() | number),
    time_metric=st.sampled_from(["cpu_s", "wall_s"]), check=st.booleans(),
    programs=st.lists(st.builds(Program, name=name, command=words.map(lambda w: ("c", *w)), environment=tables, directory=st.sampled_from(["/", "/usr/lib"]), timeout_s=number,
                                compare_output=st.booleans(), ignore_lines=st.sampled_from([(), ("^x",)]), server=st.none() | st.builds(
                                    Server, st.integers(0, 9), number, number, number, st.just(("/x",)), st.integers(1, 9), number, number)),
                      min_size=1, max_size=2, unique_by=lambda p: p.name).map(tuple),
    variants=st.lists(st.builds(Variant, name=name.filter(lambda n: n != "a"), base=st.just("env"), settings=tables, environment=tables, command=words, prefix=words,
                                directory=st.sampled_from([None, "/usr"])), max_size=2, unique_by=lambda v: v.name)
    .map(lambda found: (Variant("a", "glibc"), *found)),
    contrasts=st.sampled_from([(), (Contrast("a question", "cpu_s", "a", "a", True),)]))


@settings(max_examples=150, deadline=None)
@given(whole_experiments)
def test_every_experiment_reads_back_from_its_toml(experiment):
    import tomllib

    text = write_toml.text(experiment, Path("/tmp"))
    found = toml.parse(toml._expanded(tomllib.loads(text), "x"), Path("/tmp"), "x")
    assert found == experiment


# --- completion ---

def completed(bash_script, *typed):
    words = " ".join(f"'{w}'" for w in typed)
    asked = f"{bash_script}\nCOMP_WORDS=({words}); COMP_CWORD={len(typed) - 1}; _ashlar; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    return subprocess.run(["bash", "--norc", "-c", asked], capture_output=True, text=True).stdout.split()


def test_bash_completes_verbs_options_and_values(ashlar):
    script = ashlar("completion", "bash").stdout
    assert completed(script, "ashlar", "co") == ["completion"] and set(completed(script, "ashlar", "")) == set(VERBS)
    assert completed(script, "ashlar", "heap", "--stri") == ["--strict"]
    assert completed(script, "ashlar", "heap", "--form", "pp") == ["pprof"] and completed(script, "ashlar", "top", "--form", "o") == ["openmetrics"]
    assert "bash" in completed(script, "ashlar", "boot", "--", "bas")


@pytest.mark.parametrize(("typed", "offered"), [
    (("c",), {"compare", "ci"}),
    (("compare", "--basel"), {"--baseline"}),
    (("compare", "--variant", "ruby"), {"ruby", "ruby-stock", "ruby-ashlar"}),
    (("compare", "--knob", "gog"), {"gogc="}),
    (("compare", "--time", "w"), {"wall_s"}),
    (("report", "--form", "reco"), {"record"}),
])
def test_the_lab_completes_verbs_options_and_values(typed, offered):
    """As bash asks it, with what --install-completion installs."""
    asked = {"_ASHLAR_LAB_COMPLETE": "complete_bash", "COMP_WORDS": " ".join(("ashlar-lab", *typed)), "COMP_CWORD": str(len(typed))}
    done = subprocess.run([Path(sys.executable).with_name("ashlar-lab")], capture_output=True, text=True, env={**os.environ, **asked})
    assert set(done.stdout.split()) == offered, done.stderr


def test_zsh_takes_its_script(ashlar):
    script = ashlar("completion", "zsh").stdout
    assert script.startswith("#compdef ashlar") and "--strict" in script and "bashcompinit" in script
    if not shutil.which("zsh"):
        pytest.skip("zsh is not installed, so its reading of the script is not tested")
    assert subprocess.run(["zsh", "-n", "-c", script], capture_output=True, text=True).stderr == ""


def test_completion_of_another_shell_is_refused(ashlar):
    done = ashlar("completion", "fish")
    assert done.returncode == 2 and "give one of bash, zsh" in done.stderr


# --- the bases of Ruby ---

@pytest.fixture
def rubies(tmp_path, monkeypatch):
    """What a build of this project leaves in the cache: interpreters that say who they are and what was set."""
    monkeypatch.delenv("RUBY", raising=False)
    monkeypatch.delenv("RUBY_STOCK", raising=False)
    monkeypatch.delenv("ASHLAR_GC_LIBRARY", raising=False)
    monkeypatch.setenv("ASHLAR_CACHE", str(tmp_path))
    for kind in ("stock", "modular"):
        ruby = tmp_path / f"rubies/ruby-3.4.5-0000-{kind}-r1/prefix/bin/ruby"
        ruby.parent.mkdir(parents=True)
        ruby.write_text(f"#!/bin/sh\necho {kind} $RUBY_GC_LIBRARY $RUBY_GC_OLDMALLOC_LIMIT $ASHLAR_SPACE_OVERHEAD\n")
        ruby.chmod(ruby.stat().st_mode | stat.S_IXUSR)
        (ruby.parents[2] / "finished").touch()
    (ruby.parent.parent / "lib/ruby-gc").mkdir(parents=True)
    (ruby.parent.parent / "lib/ruby-gc/librubygc.ashlar.so").touch()
    return tmp_path


def test_the_bases_of_ruby_find_what_was_built_and_put_it_first_in_path(rubies):
    found = built("ruby-stock", "ruby-ashlar", command=("ruby", "x.rb"), curves=True)
    stock, ashlar_ = found.variants
    assert (stock.knob, len(stock.values), ashlar_.knob, len(ashlar_.values)) == ("growth", 7, "space_overhead", 7)
    said = []
    for variant, value in ((stock, "200"), (ashlar_, "30")):
        start = variants.start_of(found.programs[0], variant, value)
        assert variants.executable(start).endswith("prefix/bin/ruby")
        said.append(subprocess.run(["ruby"], env={**os.environ, **start.environment, "PATH": f"{start.path}:{os.environ['PATH']}"}, capture_output=True, text=True).stdout.split())
    assert said == [["stock", str(32 << 20)], ["modular", "ashlar", "30"]]
    assert start.library == "librubygc.ashlar"


def test_a_knob_without_values_takes_those_of_its_base(rubies):
    found = built("ruby-stock", "ruby-ashlar", command=("ruby",), knobs=["space_overhead"])
    assert [v.knob for v in found.variants] == [None, "space_overhead"] and len(found.variants[1].values) == 7


def test_what_a_base_found_is_not_written_into_a_file(rubies):
    assert "settings" not in write_toml.text(built("ruby-stock", "ruby-ashlar", command=("ruby",)), rubies)


def test_a_ruby_that_is_not_there_is_told_in_one_line(tmp_path, monkeypatch, rubies):
    monkeypatch.setenv("ASHLAR_CACHE", str(tmp_path / "empty"))
    for base in ("ruby-stock", "ruby-ashlar"):
        with pytest.raises(BadInput, match="no such Ruby is built; run 'make ruby'"):
            built(base)
    with pytest.raises(BadInput, match="cannot be run"):
        built("ruby-stock:ruby=/no/such/ruby")
    monkeypatch.setenv("ASHLAR_CACHE", str(rubies))
    with pytest.raises(BadInput, match="has no librubygc.other.so; run 'make lib'"):
        built("ruby-ashlar:library=other")
    with pytest.raises(BadInput, match="growth = 0 of ruby-stock is out of reach"):
        found = built("ruby-stock:growth=0")
        variants.start_of(found.programs[0], found.variants[0], None)
