"""The store: one SQLite file, one row per run, raw samples kept as compressed JSON."""

import contextlib
import dataclasses
import itertools
import json
import os
import sqlite3
import tempfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ashlar.errors import BadInput
from ashlar.files import put
from ashlar_lab.experiment.model import Experiment
from ashlar_lab.store.run import OK, Run
from ashlar_lab.store.table import REPEATS, Row, Runs, Table, other_outputs

# Raised when a column comes or changes its meaning.
FORMAT_VERSION = 3
# With more runs than this only some are read whole, so many of the first blocks and at most so many failures.
WHOLE_MAX, SHOWN_MAX, SHOWN_FAILURES_MAX = 20_000, 2_000, 500
_APPLICATION_ID = 0x41534C52  # "ASLR" in the file header tells a store from any other SQLite file
_IDENTITY = ("architecture", "cpu", "cpus", "memory_gib", "kernel", "libc")
_PLAIN = ("block", "position", "program", "variant", "value", "role", "state", "reason", "checksum", "mapped", "padding",
          "errors_tail", "started", "load", "machine")
_JSON = ("metrics", "told", "command", "environment", "complaints", "missing", "others")
_PACKED = ("series", "pss", "latency_s")
_COLUMNS = _PLAIN + _JSON + _PACKED
# Of the index: a block is of one machine; check runs are each machine's own.
_SCHEMA = f"""
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE run (
  id INTEGER PRIMARY KEY, block INTEGER NOT NULL, position INTEGER NOT NULL, program TEXT NOT NULL, variant TEXT NOT NULL,
  value TEXT, role TEXT NOT NULL, state TEXT NOT NULL, reason TEXT NOT NULL, checksum TEXT, mapped TEXT,
  padding INTEGER NOT NULL, errors_tail TEXT NOT NULL, started TEXT NOT NULL, load REAL NOT NULL,
  machine TEXT NOT NULL DEFAULT '',
  {", ".join(f"{c} TEXT NOT NULL" for c in _JSON)}, {", ".join(f"{c} BLOB NOT NULL" for c in _PACKED)}
) STRICT;
CREATE UNIQUE INDEX one_run_per_cell ON run (block, program, variant, ifnull(value, ''), role, CASE WHEN block < 0 THEN machine ELSE '' END);
PRAGMA application_id = {_APPLICATION_ID};
PRAGMA user_version = {FORMAT_VERSION};
"""


class Store(contextlib.AbstractContextManager):
    """An open result file. Use as a context manager."""

    def __init__(self, path: Path, connection: sqlite3.Connection):
        self.path, self._connection = path, connection

    def __exit__(self, *_) -> None:
        self._connection.close()

    @staticmethod
    def check_can_create(path: Path) -> None:
        """Complain before anything runs, and leave nothing behind."""
        if path.exists():
            raise BadInput(f"the store {path} exists; go on with it by --resume {path}, or name another with --store")
        folder = path.parent
        if not folder.is_dir():
            raise BadInput(f"the folder {folder} of the store does not exist; make it, or name another store with --store")
        try:
            tempfile.TemporaryFile(dir=folder).close()
        except OSError as error:
            raise BadInput(f"cannot write the store {path}: {error.strerror}; name a writable place with --store") from None

    @staticmethod
    def create(path: Path, experiment: Experiment, machine: dict, files: Mapping[str, str] = {}) -> "Store":
        """Make a new store; it exists under its name only when its tables are complete. `files` are those of `Store.files`."""
        Store.check_can_create(path)
        with contextlib.closing(sqlite3.connect(":memory:")) as made:
            made.executescript(_SCHEMA)
            made.executemany("INSERT INTO meta VALUES (?, ?)", [
                ("experiment", experiment.to_json()), ("identity", experiment.identity()), ("machine", json.dumps(machine)), ("files", json.dumps(files))])
            made.commit()
            put(path, made.serialize(), named=f"the store {path}", option="--store")
        return Store.open(path)

    @staticmethod
    def open(path: Path) -> "Store":
        if not path.is_file():
            raise BadInput(f"there is no store {path}; give a file that 'ashlar-lab compare' wrote")
        try:
            mode = "rw" if os.access(path, os.W_OK) else "ro"
            connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode={mode}", uri=True)
            application = connection.execute("PRAGMA application_id").fetchone()[0]
            version = connection.execute("PRAGMA user_version").fetchone()[0]
        except sqlite3.Error as error:
            raise BadInput(f"{path} is no store of the lab: {error}") from None
        if application != _APPLICATION_ID:
            raise BadInput(f"{path} is no store of the lab; give a file that 'ashlar-lab compare' wrote")
        if version != FORMAT_VERSION:
            raise BadInput(f"{path} has store format {version}, this lab reads {FORMAT_VERSION}; use the version of the lab that wrote it")
        return Store(path, connection)

    def experiment(self) -> Experiment:
        return Experiment.from_json(self._meta("experiment"))

    def machine(self) -> dict:
        """The machine the store was begun on. Of a store with several, `machines` has them all."""
        return json.loads(self._meta("machine"))

    def machines(self) -> dict[str, dict]:
        """The machines that runs name, by name; empty where all runs are of the one nameless machine."""
        return json.loads(self._meta("machines", "{}"))

    def add_machine(self, name: str, facts: dict) -> None:
        """Note a machine before its first run. A name that is known must be the same machine."""
        known = self.machines()
        if name in known:
            refuse_unlike(known[name], facts, f"{self.path} has another machine called {name}")
        self._set_meta("machines", json.dumps({**known, name: {**known.get(name, {}), **facts}}))

    def name_machine(self, name: str) -> None:
        """Give the nameless machine of a store that was begun on one machine a name, so that others can join it."""
        if self.machines() or not self._connection.execute("SELECT 1 FROM run WHERE machine = '' LIMIT 1").fetchone():
            return
        with self._connection:
            self._connection.execute("UPDATE run SET machine = ? WHERE machine = ''", (name,))
        self._set_meta("machines", json.dumps({name: self.machine()}))

    def files(self) -> dict[str, str]:
        """SHA-256 by path of what travelled to the machines or was checked there; empty for runs on one machine."""
        return json.loads(self._meta("files", "{}"))

    def add_files(self, files: Mapping[str, str]) -> None:
        self._set_meta("files", json.dumps({**self.files(), **files}))

    def _meta(self, key: str, otherwise: str | None = None) -> str:
        row = self._connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return row[0] if row or otherwise is None else otherwise

    def _set_meta(self, key: str, value: str) -> None:
        with self._connection:
            self._connection.execute("INSERT INTO meta VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value", (key, value))

    def update_experiment(self, experiment: Experiment) -> None:
        """Replace the stopping rule of the stored experiment; what is measured must stay the same."""
        if experiment.identity() != self._meta("identity"):
            raise BadInput(f"{self.path} holds another experiment; resume it without changing variants, knobs or programs")
        self._set_meta("experiment", experiment.to_json())

    def add(self, *runs: Run) -> None:
        """Add runs together: all of them are on disk when this returns, or none."""
        with self._connection:
            self._connection.executemany(f"INSERT INTO run ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))})", map(_values, runs))

    def drop_blocks_below(self, runs: int) -> None:
        """Forget blocks that have fewer runs, being not whole, so that another machine can run them from their start."""
        with self._connection:
            self._connection.execute("DELETE FROM run WHERE block IN (SELECT block FROM run WHERE block >= 0 GROUP BY block HAVING count(*) < ?)", (runs,))

    def runs(self, where: str = "1") -> list[Run]:
        """All runs, check runs first, then by block and position."""
        rows = self._connection.execute(f"SELECT {', '.join(_COLUMNS)} FROM run WHERE {where} ORDER BY block, position, id")
        return [_run(dict(zip(_COLUMNS, row))) for row in rows]

    def shares_runs_with(self, other: "Store") -> bool:
        """Whether one of the two is a copy of the other, or both are of a third: what was stored first is in both then."""
        first, second = (set(store._connection.execute("SELECT started, metrics FROM run WHERE block >= 0 ORDER BY id LIMIT 100")) for store in (self, other))
        return bool(first & second)

    def size(self) -> tuple[int, int]:
        """How many runs there are, and one more than the highest block."""
        return self._connection.execute("SELECT count(*), ifnull(max(block), -1) + 1 FROM run").fetchone()

    def first_runs(self, most: int) -> list[Run]:
        """Check runs, about `most` runs of the first blocks, and failures."""
        each = self._connection.execute("SELECT count(*) / (count(DISTINCT block) + 1.0) FROM run WHERE block >= 0").fetchone()[0]
        return self.runs(f"block BETWEEN 0 AND {int(most / max(1.0, each))} OR id IN (SELECT id FROM run WHERE block < 0 LIMIT {most}) "
                         f"OR id IN (SELECT id FROM run WHERE state != '{OK}' LIMIT {SHOWN_FAILURES_MAX})")

    def told(self) -> set[tuple[str, str]]:
        """(program, name) of the figures that programs reported themselves."""
        return {(program, name) for program, text in self._connection.execute("SELECT DISTINCT program, told FROM run") for name in json.loads(text)}

    def rows(self, blocks: int = 0, with_checks: bool = True) -> Iterable[Row]:
        """What a table needs of every run, in no order; `blocks` is added to the numbers of the blocks."""
        chosen = "1" if with_checks else "block >= 0"
        for block, position, load, metrics, *repeats in self._connection.execute(f"SELECT block, position, load, metrics, {', '.join(REPEATS)} FROM run WHERE {chosen}"):
            yield (block + blocks if block >= 0 else block, position, load, tuple(repeats), json.loads(metrics))


def _values(run: Run) -> list:
    packed = (zlib.compress(json.dumps(getattr(run, c)).encode(), 6) for c in _PACKED)
    return [*(getattr(run, c) for c in _PLAIN), *(json.dumps(getattr(run, c)) for c in _JSON), *packed]


def _run(row: dict) -> Run:
    for column in _JSON:
        row[column] = json.loads(row[column])
    for column in _PACKED:
        row[column] = json.loads(zlib.decompress(row[column]))
    return Run.of(row)


def refuse_unlike(first: dict, second: dict, what: str) -> None:
    """Results of unlike machines are never put side by side."""
    for key in _IDENTITY:
        if first.get(key) != second.get(key):
            raise BadInput(f"{what}: the machines differ in {key} ({first.get(key)!r} against {second.get(key)!r}); "
                           "measure both on one machine")


def refuse_unlike_machines(first: dict, second: dict, what: str) -> None:
    """The same of the machines of two stores, as `read_all` gives them. Where both name theirs, those of one name must be alike."""
    named, others = (store.get("machines", {}) for store in (first, second))
    if not (named and others):
        refuse_unlike(first, second, what)
    for name in sorted(named.keys() & others.keys()):
        refuse_unlike(named[name], others[name], f"{what}: it has another machine called {name}")


def refuse_unknown(metrics: Sequence[str] | None, runs: Sequence[Run], name: str) -> None:
    """A metric that is asked for is one of runs that succeeded, where any did."""
    table = Table.of(runs)
    known = table.metrics()
    for metric in metrics or ():
        if metric not in known and table.good().any():
            raise BadInput(f"no run of {name} has the metric {metric!r}; give some of {', '.join(sorted(known))}")


def read_all(paths: Iterable[Path]) -> tuple[Experiment, dict, Runs]:
    """The experiment, machine and runs of one store, or of several of the same experiment, output and machine; stores that name
    their machines merge whatever the machines are. Blocks of later stores are numbered on, so that pairing within a block
    stays true. The machine's `machines` has those that runs name."""
    with contextlib.ExitStack() as opened:
        stores = [opened.enter_context(Store.open(path)) for path in paths]
        experiment, machine, named = stores[0].experiment(), stores[0].machine(), stores[0].machines()
        for store in stores[1:]:
            machines = store.machines()
            if store.experiment().identity() != experiment.identity():
                raise BadInput(f"{store.path} holds another experiment than the first store; only runs of one experiment merge")
            refuse_unlike_machines({**machine, "machines": named}, {**store.machine(), "machines": machines}, f"cannot merge {store.path}")
            named = {**named, **machines}
        for before, store in itertools.combinations(stores, 2):
            if store.shares_runs_with(before):
                raise BadInput(f"{store.path} has runs that {before.path} has, too: one is a copy of the other; runs that count twice make intervals too narrow")
        sizes = [store.size() for store in stores]
        offsets = list(itertools.accumulate((blocks for _, blocks in sizes), initial=0))
        many = sum(runs for runs, _ in sizes) > WHOLE_MAX
        shown = []
        for store, offset in zip(stores, offsets):
            own = store.first_runs(SHOWN_MAX // len(stores)) if many else store.runs()
            shown += own if store is stores[0] else [dataclasses.replace(r, block=r.block + offset) for r in own if r.block >= 0]
        table = Table((row for store, offset in zip(stores, offsets) for row in store.rows(offset, store is stores[0])), set().union(*(store.told() for store in stores)))
        for store, start, end in zip(stores[1:], offsets[1:], offsets[2:]):
            if other := other_outputs(table.outputs(table.block < offsets[1]), table.outputs((table.block >= start) & (table.block < end))):
                raise BadInput(f"cannot merge {store.path}: {'; '.join(other.values())}; only runs that do the same work merge")
    return experiment, ({**machine, "machines": named} if named else machine), Runs(shown, table)
