"""The store keeps every run as it was, and refuses what it cannot stand for."""

import math
import sqlite3

import pytest
from conftest import make_run, two_variants
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ashlar.errors import BadInput
from ashlar_lab.experiment.model import Experiment, Program, Server, Stop, Variant
from ashlar_lab.fit.analysis import analyse
from ashlar_lab.report import page, record
from ashlar_lab.store import database
from ashlar_lab.store.database import Store, read_all
from ashlar_lab.store.run import STATES, Run

MACHINE = {"architecture": "x", "cpu": "y", "cpus": 2, "memory_gib": 4, "kernel": "1", "libc": "glibc 2"}

text = st.text(st.characters(blacklist_categories=("Cs",)), max_size=20)
real = st.floats(allow_nan=False, allow_infinity=False)
runs = st.builds(
    Run, block=st.integers(-1, 1000), position=st.integers(0, 1000), program=text, variant=text, value=st.none() | text,
    role=st.sampled_from(["main", "twin", "check"]), state=st.sampled_from(STATES), reason=text,
    metrics=st.dictionaries(text, real | st.just(math.inf), max_size=5), told=st.lists(text, max_size=3).map(tuple),
    series=st.lists(st.tuples(real, real, st.integers(0, 99)), max_size=5).map(tuple),
    pss=st.lists(st.tuples(real, real, real), max_size=5).map(tuple), latency_s=st.lists(real, max_size=5).map(tuple),
    checksum=st.none() | text, mapped=st.none() | text, command=st.lists(text, max_size=3).map(tuple),
    environment=st.dictionaries(text, text, max_size=3), padding=st.integers(0, 4096), errors_tail=text,
    machine=text, complaints=st.lists(text, max_size=2).map(tuple), missing=st.dictionaries(text, text, max_size=2),
    others=st.dictionaries(text, real, max_size=3), started=text, load=real)
names = st.text("abcdefgh", min_size=1, max_size=6)
experiments = st.builds(
    Experiment, name=names, title=text, note=text, baseline=names, seed=st.integers(0, 2**31),
    programs=st.lists(st.builds(Program, name=names, command=st.lists(text).map(tuple), environment=st.dictionaries(text, text),
                                server=st.none() | st.builds(Server, port=st.integers(0, 65535), rate_per_s=real)), min_size=1, max_size=3).map(tuple),
    variants=st.lists(st.builds(Variant, name=names, base=names, settings=st.dictionaries(text, text), values=st.lists(text).map(tuple)),
                      min_size=1, max_size=3).map(tuple),
    stop=st.builds(Stop, blocks_min=st.integers(1, 9), blocks_max=st.integers(9, 99), precision=real, budget_s=st.none() | real))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(st.lists(runs, max_size=6, unique_by=lambda r: (r.block, r.program, r.variant, r.value or "", r.role)))
def test_what_is_added_comes_back_equal(tmp_path_factory, added):
    path = tmp_path_factory.mktemp("store") / "s.ashlar"
    with Store.create(path, two_variants(), MACHINE) as store:
        for run in added:
            store.add(run)
    with Store.open(path) as store:
        key = lambda r: (r.block, r.position, r.program, r.variant, r.value or "", r.role)  # noqa: E731
        assert sorted(store.runs(), key=key) == sorted(added, key=key)
        assert store.machine() == MACHINE


@settings(max_examples=100, deadline=None)
@given(experiments)
def test_an_experiment_survives_its_text(experiment):
    again = Experiment.from_json(experiment.to_json())
    assert again == experiment and again.identity() == experiment.identity()


def test_one_cell_holds_one_run(tmp_path):
    with Store.create(tmp_path / "s.ashlar", two_variants(), MACHINE) as store:
        store.add(make_run(0, "p", "old", None, 1, 1))
        with pytest.raises(sqlite3.IntegrityError):
            store.add(make_run(0, "p", "old", None, 2, 2))
        store.add(make_run(1, "p", "old", None, 2, 2))
        assert len(store.runs()) == 2


def test_a_store_of_another_format_is_refused_by_its_number(tmp_path):
    path = tmp_path / "s.ashlar"
    Store.create(path, two_variants(), MACHINE).__exit__()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(BadInput, match="store format 99, this lab reads 3"):
        Store.open(path)


@pytest.mark.parametrize("content", [b"", b"not a database at all, but long enough to be looked at" * 40])
def test_a_file_of_another_kind_is_refused(tmp_path, content):
    path = tmp_path / "s.ashlar"
    path.write_bytes(content)
    with pytest.raises(BadInput, match="no store of the lab"):
        Store.open(path)


def test_an_existing_store_is_never_overwritten(tmp_path):
    path = tmp_path / "s.ashlar"
    path.write_text("precious")
    with pytest.raises(BadInput, match="--resume"):
        Store.create(path, two_variants(), MACHINE)
    assert path.read_text() == "precious" and [p.name for p in tmp_path.iterdir()] == ["s.ashlar"]


def stored(path, machine=MACHINE, experiment=None, blocks=2, checksum="same"):
    with Store.create(path, experiment or two_variants(), machine) as store:
        for block in range(-1, blocks):
            for variant in ("old", "new"):
                store.add(make_run(block, "p", variant, None, 1, 1, role="check" if block < 0 else "main", started=f"{path.name} {block}", checksum=checksum))
    return path


def test_stores_of_one_experiment_merge_with_their_blocks_apart(tmp_path):
    _, _, runs = read_all([stored(tmp_path / "a.ashlar"), stored(tmp_path / "b.ashlar", blocks=3)])
    assert sorted({r.block for r in runs}) == [-1, 0, 1, 2, 3, 4]
    assert len(runs) == 2 + 4 + 6


def test_a_record_has_every_run_of_a_store_of_which_only_some_are_listed(tmp_path, monkeypatch):
    path = stored(tmp_path / "a.ashlar", blocks=6)
    with Store.open(path) as store:
        store.add(make_run(6, "p", "new", None, 1, 1, state="crashed", load=1.25))

    def kept():
        experiment, machine, runs = read_all([path])
        return len(runs), record.as_csv(page.build(experiment, machine, runs, analyse(experiment, runs)))

    whole, expected = kept()
    monkeypatch.setattr(database, "WHOLE_MAX", 5)
    monkeypatch.setattr(database, "SHOWN_MAX", 2)
    few, found = kept()
    assert few < whole == 15 == found.count("\n") - 1 and found == expected and "\n6,0,p,new,main,crashed,1.25,1,1\n" in found


def test_a_store_and_its_copy_refuse_to_merge(tmp_path):
    """Runs that count twice would make intervals too narrow. The copy may have gone on."""
    first, copy = stored(tmp_path / "a.ashlar"), tmp_path / "b.ashlar"
    copy.write_bytes(first.read_bytes())
    with Store.open(copy) as store:
        store.add(make_run(2, "p", "old", None, 3, 3, started="later"))
    with pytest.raises(BadInput, match="b.ashlar has runs that .*a.ashlar has, too: one is a copy of the other"):
        read_all([first, copy])


@pytest.mark.parametrize("key", sorted(MACHINE))
def test_unlike_machines_refuse_to_merge_and_the_difference_is_named(tmp_path, key):
    other = stored(tmp_path / "b.ashlar", machine={**MACHINE, key: "another"})
    with pytest.raises(BadInput, match=f"machines differ in {key}"):
        read_all([stored(tmp_path / "a.ashlar"), other])


def test_unlike_experiments_refuse_to_merge(tmp_path):
    other = stored(tmp_path / "b.ashlar", experiment=two_variants(programs=("p", "q")))
    with pytest.raises(BadInput, match="another experiment"):
        read_all([stored(tmp_path / "a.ashlar"), other])


def test_stores_whose_programs_print_different_things_refuse_to_merge(tmp_path):
    one, two, other, unknown = (stored(tmp_path / f"{i}.ashlar", checksum=said) for i, said in enumerate(("same", "same", "else", None)))
    assert len(read_all([one, two, unknown])[2]) == 14
    with pytest.raises(BadInput, match="cannot merge .*2.ashlar: p prints something else than before; only runs that do the same work merge"):
        read_all([one, two, other])
