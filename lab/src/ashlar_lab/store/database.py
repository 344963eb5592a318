"""The store: one SQLite file, one row per run, raw samples kept as compressed JSON."""

from __future__ import annotations

import json
import os
import sqlite3
import zlib
from collections.abc import Iterable
from pathlib import Path

from ashlar_lab.errors import BadInput
from ashlar_lab.experiment.model import Experiment
from ashlar_lab.store.run import Run

# Raised when a column comes or changes its meaning. 1: the first format. 2: `others`.
FORMAT_VERSION = 2
_APPLICATION_ID = 0x41534C52  # "ASLR" in the file header tells a store from any other SQLite file
_IDENTITY = ("architecture", "cpu", "cpus", "memory_gib", "kernel", "libc")
_PLAIN = ("block", "position", "program", "variant", "value", "role", "state", "reason", "checksum", "mapped", "padding",
          "errors_tail", "started", "load")
_JSON = ("metrics", "told", "command", "environment", "complaints", "missing", "others")
_PACKED = ("series", "pss", "latency_s")
_SCHEMA = f"""
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE run (
  id INTEGER PRIMARY KEY, block INTEGER NOT NULL, position INTEGER NOT NULL, program TEXT NOT NULL, variant TEXT NOT NULL,
  value TEXT, role TEXT NOT NULL, state TEXT NOT NULL, reason TEXT NOT NULL, checksum TEXT, mapped TEXT,
  padding INTEGER NOT NULL, errors_tail TEXT NOT NULL, started TEXT NOT NULL, load REAL NOT NULL,
  {", ".join(f"{c} TEXT NOT NULL" for c in _JSON)}, {", ".join(f"{c} BLOB NOT NULL" for c in _PACKED)}
) STRICT;
CREATE UNIQUE INDEX one_run_per_cell ON run (block, program, variant, ifnull(value, ''), role);
PRAGMA application_id = {_APPLICATION_ID};
PRAGMA user_version = {FORMAT_VERSION};
"""


class Store:
    """An open result file. Use as a context manager."""

    def __init__(self, path: Path, connection: sqlite3.Connection):
        self.path, self._connection = path, connection

    def __enter__(self) -> "Store":
        return self

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
        probe = folder / f".{path.name}.probe"
        try:
            os.close(os.open(probe, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            probe.unlink()
        except OSError as error:
            raise BadInput(f"cannot write the store {path}: {error.strerror}; name a writable place with --store") from None

    @staticmethod
    def create(path: Path, experiment: Experiment, machine: dict) -> "Store":
        """Make a new store; it exists under its name only when its tables are complete."""
        Store.check_can_create(path)
        partial = path.with_name(f".{path.name}.new")
        partial.unlink(missing_ok=True)
        try:
            connection = sqlite3.connect(partial)
            connection.executescript(_SCHEMA)
            connection.executemany("INSERT INTO meta VALUES (?, ?)", [
                ("experiment", experiment.to_json()), ("identity", experiment.identity()), ("machine", json.dumps(machine))])
            connection.commit()
            connection.close()
            partial.rename(path)
        except (OSError, sqlite3.Error) as error:
            partial.unlink(missing_ok=True)
            raise BadInput(f"cannot write the store {path}: {error}; name a writable place with --store") from None
        return Store.open(path)

    @staticmethod
    def open(path: Path | str) -> "Store":
        path = Path(path)
        if not path.is_file():
            raise BadInput(f"there is no store {path}; give a file that 'ashlar compare' wrote")
        try:
            mode = "rw" if os.access(path, os.W_OK) else "ro"
            connection = sqlite3.connect(f"file:{_quoted(path)}?mode={mode}", uri=True)
            application = connection.execute("PRAGMA application_id").fetchone()[0]
            version = connection.execute("PRAGMA user_version").fetchone()[0]
        except sqlite3.Error as error:
            raise BadInput(f"{path} is no store of the lab: {error}") from None
        if application != _APPLICATION_ID:
            raise BadInput(f"{path} is no store of the lab; give a file that 'ashlar compare' wrote")
        if version != FORMAT_VERSION:
            raise BadInput(f"{path} has store format {version}, this lab reads {FORMAT_VERSION}; use the version of the lab that wrote it")
        return Store(path, connection)

    def experiment(self) -> Experiment:
        return Experiment.from_json(self._meta("experiment"))

    def machine(self) -> dict:
        return json.loads(self._meta("machine"))

    def _meta(self, key: str) -> str:
        return self._connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()[0]

    def update_experiment(self, experiment: Experiment) -> None:
        """Replace the stopping rule of the stored experiment; what is measured must stay the same."""
        if experiment.identity() != self._meta("identity"):
            raise BadInput(f"{self.path} holds another experiment; resume it without changing variants, knobs or programs")
        with self._connection:
            self._connection.execute("UPDATE meta SET value = ? WHERE key = 'experiment'", (experiment.to_json(),))

    def add(self, run: Run) -> None:
        """Add one run; it is on disk when this returns."""
        columns = _PLAIN + _JSON + _PACKED
        values = [getattr(run, c) for c in _PLAIN]
        values += [json.dumps(getattr(run, c)) for c in _JSON]
        values += [zlib.compress(json.dumps(getattr(run, c)).encode(), 6) for c in _PACKED]
        with self._connection:
            self._connection.execute(f"INSERT INTO run ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})", values)

    def runs(self) -> list[Run]:
        """All runs, check runs first, then by block and position."""
        columns = _PLAIN + _JSON + _PACKED
        rows = self._connection.execute(f"SELECT {', '.join(columns)} FROM run ORDER BY block, position, id")
        return [_run(dict(zip(columns, row))) for row in rows]


def _run(row: dict) -> Run:
    for column in _JSON:
        row[column] = json.loads(row[column])
    for column in _PACKED:
        row[column] = json.loads(zlib.decompress(row[column]))
    row["series"] = tuple(map(tuple, row["series"]))
    row["pss"] = tuple(map(tuple, row["pss"]))
    for column in ("told", "command", "complaints", "latency_s"):
        row[column] = tuple(row[column])
    return Run(**row)


def _quoted(path: Path) -> str:
    from urllib.parse import quote

    return quote(str(path.resolve()))


def refuse_unlike(first: dict, second: dict, what: str) -> None:
    """Results of unlike machines are never put side by side."""
    for key in _IDENTITY:
        if first.get(key) != second.get(key):
            raise BadInput(f"{what}: the machines differ in {key} ({first.get(key)!r} against {second.get(key)!r}); "
                           "measure both on one machine")


def read_all(paths: Iterable[Path | str]) -> tuple[Experiment, dict, list[Run]]:
    """The experiment, machine and runs of one store, or of several of the same experiment and machine.
    Blocks of later stores are numbered on, so that pairing within a block stays true."""
    experiment, machine, runs = None, None, []
    for path in paths:
        with Store.open(path) as store:
            found, found_machine, found_runs = store.experiment(), store.machine(), store.runs()
        if experiment is None:
            experiment, machine = found, found_machine
        elif found.identity() != experiment.identity():
            raise BadInput(f"{path} holds another experiment than the first store; only runs of one experiment merge")
        else:
            refuse_unlike(machine, found_machine, f"cannot merge {path}")
        after = max((r.block for r in runs), default=-1) + 1
        runs += [r if not runs or after == 0 else _moved(r, after) for r in found_runs if r.block >= 0 or not after]
    assert experiment is not None and machine is not None
    return experiment, machine, runs


def _moved(run: Run, blocks: int) -> Run:
    return Run(**{**run.__dict__, "block": run.block + blocks})
