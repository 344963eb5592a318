"""An experiment is what its text says, or one clear complaint."""

from pathlib import Path

import pytest
from conftest import two_variants
from hypothesis import given
from hypothesis import strategies as st

from ashlar.errors import BadInput
from ashlar_lab import variants
from ashlar_lab.experiment import command_line, toml
from ashlar_lab.experiment.model import TWIN, Stop

GOOD = """
[experiment]
name = "e"
baseline = "a"
[[program]]
name = "p"
command = ["echo", "{word}"]
[[variant]]
name = "a"
settings = { word = "x" }
[[variant]]
name = "b"
settings = { word = "y" }
"""


def load(tmp_path, text, **overrides):
    path = tmp_path / "e.toml"
    path.write_text(text)
    return toml.load(str(path), **overrides)


def test_placeholders_settings_and_directories(tmp_path):
    experiment = load(tmp_path, GOOD)
    start = variants.start_of(experiment.programs[0], experiment.variant("b"), None)
    assert start.command == ("echo", "y") and start.environment == {}
    assert experiment.programs[0].directory == str(tmp_path)


def test_references_to_the_environment_are_filled(tmp_path, monkeypatch):
    monkeypatch.setenv("WORD", "from outside")
    text = GOOD.replace('word = "x"', 'word = "${WORD}"').replace('word = "y"', 'word = "${UNSET_WORD:-fallback}"')
    experiment = load(tmp_path, text)
    assert [v.settings["word"] for v in experiment.variants] == ["from outside", "fallback"]


def test_overrides_win_over_the_file(tmp_path):
    text = GOOD.replace('name = "e"', 'name = "e"\nblocks = 12\nseed = 5')
    assert load(tmp_path, text).stop == Stop(12, 12)
    assert load(tmp_path, text, blocks=3, seed=9).stop == Stop(3, 3)
    assert load(tmp_path, text, seed=0).seed == 0


@pytest.mark.parametrize(("change", "complaint"), [
    (("[experiment]", "[experiment"), "is not TOML"),
    (('baseline = "a"', 'baseline = "c"'), "'c' is no variant; choose one of a, b"),
    (('baseline = "a"', 'base_line = "a"'), "unknown key 'base_line'"),
    (('name = "b"', 'name = "a"'), "two variants are named 'a'"),
    (('command = ["echo", "{word}"]', 'command = "echo"'), "command = 'echo'; give a list of strings"),
    (('command = ["echo", "{word}"]', ""), "p has no command under a"),
    (('name = "p"', ""), "name is missing"),
    (('name = "b"', 'name = "b"\nuses = "jemaloc"'), "did you mean jemalloc?"),
    (('name = "b"', 'name = "b"\nuses = "ocaml"'), "ocaml has no setting 'word'"),
    (('name = "b"', 'name = "b"\nknob = "k"\nvalues = [1]'), "has one value (1)"),
    (('name = "b"', 'name = "b"\nknob = "k"\nvalues = [1, 1]'), "has one value (1)"),
    (('name = "b"', 'name = "b"\nknob = "k"\nvalues = [1, 2, 1]'), "repeats a value"),
    (('name = "b"', 'name = "b"\nknob = "k"\nvalues = ["1", "2", "1.0"]'), "the knob k of b repeats a value: 1, 2, 1.0"),
    (('name = "b"', 'name = "b"\nknob = "k"\nvalues = 5'), "values = 5; give a list"),
    (('name = "b"', 'name = "b"\npreload = "/no/such.so"'), "/no/such.so does not exist"),
    (('baseline = "a"', 'blocks = "many"'), "blocks = 'many'; give a number"),
    (('baseline = "a"', "blocks = -1"), "blocks from -1"),
    (('baseline = "a"', "precision = 5"), "precision = 5"),
    (('baseline = "a"', "sample_hz = 0"), "sample_hz = 0"),
    (('baseline = "a"', 'time = "cpu"'), "time = 'cpu'"),
    (('baseline = "a"', 'time = "p99_ms"'), "only servers have one"),
    (('baseline = "a"', 'space = "rss"'), "space = 'rss'"),
    (('name = "p"', 'name = "p"\noutput = "maybe"'), "output = 'maybe'; give one of same, ignore"),
    (('name = "p"', 'name = "p"\nignore_lines = ["("]'), "no regular expression"),
    (('name = "p"', 'name = "p"\nserver = { port = 99999, rate_per_s = 5 }'), "the server needs a port"),
    (('name = "p"', 'name = "p"\nserver = { rate_per_s = 5 }'), "port is missing"),
    (('[[program]]', '[[contrast]]\nname = "q"\nmetric = "p99_ms"\nvariant = "a"\nagainst = "b"\n[[program]]\nserver = { port = 0, rate_per_s = 199, duration_s = 10 }'),
     "p99_ms of p would rest on 19 slower requests of 1990"),
    (('name = "p"', 'name = "p"\ngoals = { "speed" = 1 }'), "a goal for 'speed', which is no contrast"),
    (('name = "p"', 'name = "p"\ngoals = { "speed" = "1" }'), "every value must be a number"),
    (('[[program]]', '[[contrast]]\nname = "q"\nmetric = "cpu_s"\nvariant = "a"\nagainst = "c"\n[[program]]'), "the contrast 'q' has 'c'"),
    (('[[program]]', '[[contrast]]\nname = "q"\nmetric = "cpu_s"\nvariant = "a"\n[[program]]'), "against is missing"),
    (('name = "e"', 'name = "e"\nheadline = ["charts"]'), "headline has 'charts'"),
    (('[[program]]', 2 * '[[contrast]]\nname = "q"\nmetric = "cpu_s"\nvariant = "a"\nagainst = "b"\n' + '[[program]]'), "two contrasts are named 'q'"),
    (('[[program]]', '[contrast]\nname = "q"\n[[program]]'), "no [[contrast]] table"),
    (('[experiment]', '[[experiment]]'), "it must be one table, [experiment]"),
    (('name = "p"', 'name = "p"\ntimeout_s = inf'), "timeout_s = inf; give a finite number"),
    (('name = "p"', 'name = "p"\ntimeout_s = 1e18'), "timeout_s = 1e+18; give a positive number of seconds, at most 1000000000"),
    (('name = "e"', 'name = "e"\nblocks = inf'), "blocks = inf; give a finite number"),
    (('name = "p"', f'name = "p"\nserver = {{ port = 0, rate_per_s = 9, paths = {["/"] * 257} }}'), "the server has 257 paths; give at most 256"),
    (('name = "p"', r'name = "p"' + '\nignore_lines = ["\\\\u2713"]'), r"ignore_lines has '\\u2713', which is no regular expression"),
    (('word = "x"', 'word = "${NOT_SET_ANYWHERE}"'), "set NOT_SET_ANYWHERE"),
])
def test_each_mistake_is_named_with_its_value(tmp_path, change, complaint):
    with pytest.raises(BadInput) as raised:
        load(tmp_path, GOOD.replace(*change, 1))
    assert complaint in str(raised.value) and "\n" not in str(raised.value).replace("\n(", "")


CHOICE = GOOD + """chosen = false
settings = { word = "y" }
[[program]]
name = "q"
command = ["echo", "q"]
[[contrast]]
name = "b over a"
metric = "cpu_s"
variant = "b"
against = "a"
"""


def test_variants_that_are_not_chosen_are_left_out_with_their_contrasts(tmp_path):
    text = CHOICE.replace('settings = { word = "y" }\n', "", 1)
    every, named = load(tmp_path, text), load(tmp_path, text, variants=["a", "b"], programs=["q"])
    assert ([v.name for v in every.variants], [p.name for p in every.programs], every.contrasts) == (["a"], ["p", "q"], ())
    assert ([v.name for v in named.variants], [p.name for p in named.programs]) == (["a", "b"], ["q"])
    assert [c.name for c in named.contrasts] == ["b over a"]


def test_a_name_that_is_not_in_the_file_cannot_be_chosen(tmp_path):
    with pytest.raises(BadInput, match="no program 'r'; it has p"):
        load(tmp_path, GOOD, programs=["r"])


def test_an_experiment_survives_its_store(tmp_path):
    experiment = load(tmp_path, CHOICE.replace('settings = { word = "y" }\n', "", 1), variants=["a", "b"])
    assert type(experiment).from_json(experiment.to_json()) == experiment


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(BadInput, match="nowhere.toml"):
        toml.load(str(tmp_path / "nowhere.toml"))


@given(st.integers(0, 2**31), st.integers(0, 500))
def test_every_block_runs_every_arm_once_and_the_same_seed_orders_it_the_same(seed, block):
    experiment = two_variants(programs=("p", "q"), values=(1, 2, 3), seed=seed)
    order = experiment.order(block)
    assert sorted(map(str, order)) == sorted(map(str, experiment.arms())) and len(set(order)) == len(order)
    assert order == experiment.order(block)


def test_orders_differ_between_blocks_and_seeds():
    orders = {tuple(two_variants(values=range(6), seed=seed).order(block)) for seed in range(5) for block in range(5)}
    assert len(orders) == 25


def test_there_is_an_a_a_twin_of_the_baseline_for_every_program():
    twins = [a for a in two_variants(programs=("p", "q")).arms() if a.role == TWIN]
    assert [(t.program, t.variant) for t in twins] == [("p", "old"), ("q", "old")]


def test_when_to_stop_is_not_part_of_what_is_measured():
    from dataclasses import replace
    experiment = two_variants()
    assert replace(experiment, stop=Stop(50, 99), title="x").identity() == experiment.identity()
    assert replace(experiment, sample_hz=9).identity() != experiment.identity()


def build(specs, knobs=(), command=("true",)):
    return command_line.build(list(specs), list(knobs), list(command), name=None, baseline=None, stop=Stop())


def environment_of(experiment, name, value=None):
    return variants.start_of(experiment.programs[0], experiment.variant(name), value).environment


def test_the_knob_goes_to_the_variants_that_understand_it():
    experiment = build(["glibc", "nf=ocaml:a=0", "bf=ocaml:a=2"], ["o=20,40"])
    assert [v.values for v in experiment.variants] == [(), ("20", "40"), ("20", "40")]
    assert environment_of(experiment, "bf", "40") == {"OCAMLRUNPARAM": "a=2,o=40"}


@pytest.mark.parametrize(("spec", "environment"), [
    ("v=glibc:arena_max=2", {"MALLOC_ARENA_MAX": "2"}),
    ("v=ruby:library=ashlar,space_overhead=80", {"RUBY_GC_LIBRARY": "ashlar", "ASHLAR_SPACE_OVERHEAD": "80"}),
    ("v=ruby:heap_growth_factor=1.2,RUBY_YJIT_ENABLE=1", {"RUBY_GC_HEAP_GROWTH_FACTOR": "1.2", "RUBY_YJIT_ENABLE": "1"}),
    ("v=go:gogc=50,memlimit=64MiB", {"GOGC": "50", "GOMEMLIMIT": "64MiB"}),
    ("v=jvm:heap=128m,collector=g1", {"JAVA_TOOL_OPTIONS": "-Xmx128m -XX:+UseG1GC"}),
    ("v=jvm:options=-Xmx64m,heap=128m", {"JAVA_TOOL_OPTIONS": "-Xmx128m -Xmx64m"}),
    ("v=node:heap=64,semi_space=4", {"NODE_OPTIONS": "--max-old-space-size=64 --max-semi-space-size=4"}),
    ("v=env:ANYTHING=1", {"ANYTHING": "1"}),
])
def test_built_in_settings_reach_the_environment_they_belong_to(spec, environment):
    assert environment_of(build([spec]), "v") == environment


def test_a_setting_named_in_the_command_fills_it_instead():
    experiment = build(["v=env:size=5,OTHER=1"], command=["prog", "--size={size}"])
    start = variants.start_of(experiment.programs[0], experiment.variant("v"), None)
    assert start.command == ("prog", "--size=5") and start.environment == {"OTHER": "1"}


@pytest.mark.parametrize(("specs", "knobs", "command", "complaint"), [
    ([], [], ["true"], "no variant given"),
    (["glibc"], [], [], "no command given"),
    (["glibc", "glibcx"], [], ["true"], "did you mean glibc?"),
    (["quetzalcoatl"], [], ["true"], "known: glibc"),
    (["glibc"], ["o=1,2"], ["true"], "no variant understands the knob 'o'"),
    (["ocaml"], ["o=1"], ["true"], "has one value"),
    (["ocaml"], ["o"], ["true"], "NAME=VALUE"),
    (["x=command:"], [], [], "names no command"),
    (["glibc:arena_max"], [], ["true"], "is not setting=value"),
])
def test_mistakes_on_the_command_line(specs, knobs, command, complaint):
    with pytest.raises(BadInput, match=complaint.replace("?", r"\?")):
        build(specs, knobs, command)


@pytest.mark.parametrize("path", sorted((Path(__file__).parents[1] / "examples").glob("*.toml")), ids=lambda p: p.name)
def test_every_example_can_be_read(path, monkeypatch):
    installed = {name for name, base in variants.BASES.items() if not base.files or variants.library_file(base)}
    monkeypatch.setattr(variants, "library_file", lambda base: f"/lib/{base.name}.so")
    assert toml.load(str(path)).variants
    assert installed >= {"glibc", "env"}


def test_the_bases_to_install_are_those_the_variants_use(tmp_path):
    assert [command_line.base_of(s) for s in ("jemalloc", "jemalloc:narenas=1", "je=jemalloc:narenas=1", "old=command:./old --x=1")] == ["jemalloc", "jemalloc", "jemalloc", "command"]
    path = tmp_path / "e.toml"
    path.write_text('[[variant]]\nname = "a"\nuses = "scudo"\n[[variant]]\nname = "b"\n')
    assert toml.bases(str(path)) == ["scudo", ""]
