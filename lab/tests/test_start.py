"""`ashlar` is for whoever runs a Ruby program: it needs Python's standard library alone, and starts without what it does not use. So does what
`ashlar-lab` sends to a machine of a cluster."""

import json
import shutil
import subprocess
import sys
from dataclasses import replace

import pytest
from conftest import CLONE, two_variants
from heap_image import busy

from ashlar_lab.experiment.model import Program

SOURCE = CLONE / "lab/src/ashlar"
# Runs a command line, then says on standard error which modules are loaded.
WATCHED = """
import json, sys
sys.path.insert(0, {source!r})
from ashlar import cli
sys.argv = ["ashlar", *{arguments!r}]
try:
    cli.main()
finally:
    print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""

# Measures a block as the agent on a machine of a cluster does.
AGENT = """
import json, sys
sys.path.insert(0, {source!r})
from ashlar_lab.experiment.model import Experiment
from ashlar_lab.measure.cluster import agent
said = agent._measure(Experiment.from_json({experiment!r}), 0, {{}})
print(json.dumps([[run["state"] for run in said["runs"]], sorted(sys.modules)]))
"""


def loaded(folder, *arguments) -> set[str]:
    """The modules at the end of a command line, of an interpreter that finds no installed package."""
    code = WATCHED.format(source=str(SOURCE.parent), arguments=arguments)
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], cwd=folder, capture_output=True, text=True, timeout=60)
    return set(json.loads(done.stderr.splitlines()[-1]))


@pytest.mark.parametrize("arguments", [("--help",), ("heap", "--help"), ("heap", "a.heap"), ("heap", "a.heap", "--form", "html,pprof,collapsed,json"), ("heap", "diff", "a.heap", "a.heap"),
                                       ("top",), ("shared", "1"), ("retained", "no.dump"), ("mem", "--", "true"), ("boot", "--", "true"), ("try", "--only", "stock", "--stock", "/bin/true", "--", "true"), ("completion", "bash")])
def test_every_verb_works_with_the_standard_library_alone(tmp_path, arguments):
    (tmp_path / "a.heap").write_bytes(busy().write())
    parts = {name.partition(".")[0] for name in loaded(tmp_path, *arguments)}
    assert "ashlar" in parts and not parts & {"numpy", "scipy", "rich", "typer", "ashlar_lab"}
    assert parts - {"ashlar", "__main__"} <= sys.stdlib_module_names


def test_the_agent_on_a_machine_of_a_cluster_needs_the_standard_library_alone(tmp_path):
    experiment = replace(two_variants(), programs=(Program("p", ("sleep", "0.1")),))
    code = AGENT.format(source=str(SOURCE.parent), experiment=experiment.to_json())
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    states, modules = json.loads(done.stdout)
    assert states == ["ok"] * 3
    assert {name.partition(".")[0] for name in modules} - {"ashlar", "ashlar_lab", "__main__"} <= sys.stdlib_module_names


def test_the_help_loads_nothing_that_a_verb_needs(tmp_path):
    for arguments in (("--help",), ("heap", "--help"), ("try", "--help")):
        assert {name for name in loaded(tmp_path, *arguments) if name.startswith("ashlar")} == {"ashlar", "ashlar.cli", "ashlar.errors", "ashlar.said"}


def test_it_runs_from_where_it_was_installed(tmp_path):
    """A folder of Python below `lib`, and the script that is in the clone beside the others of `bin`."""
    (tmp_path / "bin").mkdir()
    shutil.copytree(SOURCE, tmp_path / "lib/ashlar/ashlar", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(CLONE / "scripts/lab/ashlar", tmp_path / "bin/ashlar")
    (tmp_path / "linked").symlink_to(tmp_path / "bin/ashlar")
    (tmp_path / "a.heap").write_bytes(busy().write())
    done = subprocess.run([sys.executable, "-I", tmp_path / "linked", "heap", tmp_path / "a.heap"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "cache.rb:12 Cache#put" in done.stdout, done.stderr
    assert not list(tmp_path.rglob("*.pyc"))  # which no package would know of when it is removed


def test_what_it_starts_is_found_where_it_was_installed(tmp_path, monkeypatch):
    from ashlar.memory import native
    from ashlar.retained import analyser

    (tmp_path / "heap-graph").write_text("")
    monkeypatch.setattr(native, "_PROGRAMS", tmp_path)
    assert analyser.program() == tmp_path / "heap-graph" and native.installed("launcher") is None


def test_an_older_python_is_refused_in_one_line():
    assert "sys.version_info < (3, 11)" in (CLONE / "scripts/lab/ashlar").read_text().split("from ashlar")[0]


def test_no_help_asks_for_a_variable_that_stock_ruby_ignores():
    from ashlar import cli

    assert [verb for verb, parser in cli._parser()[1].items() if "RUBY_GC_LIBRARY" in parser.format_help()] == []


def test_the_manual_has_every_verb_and_option():
    from ashlar import cli

    manual = (CLONE / "man/ashlar.1").read_text().replace("\\-", "-")
    for verb, parser in cli._parser()[1].items():
        section = manual.partition(f".SH ASHLAR {verb.upper()}\n")[2].partition("\n.SH ")[0]
        assert section and [name for action in parser._actions for name in action.option_strings if name not in ("-h", "--help") and name not in section] == [], verb
