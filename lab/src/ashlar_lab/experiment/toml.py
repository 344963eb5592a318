"""Read an experiment from TOML. Every complaint names the key, the value and what would do."""

from __future__ import annotations

import dataclasses
import os
import re
import tomllib
from pathlib import Path

from ashlar_lab import variants
from ashlar_lab.errors import BadInput
from ashlar_lab.experiment.check import checked
from ashlar_lab.experiment.model import Contrast, Experiment, Program, Server, Stop, Variant

_TOP = {"experiment", "program", "variant", "knob", "contrast"}
_REFERENCE = re.compile(r"\$(\$)?\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


def load(path: str, **overrides) -> Experiment:
    """Read `path`. `overrides` (blocks, seed, budget_s, precision) replace what the file says; `programs` and
    `variants`, lists of names, choose among what it describes."""
    return parse(_expanded(_read(path), path), Path(path).resolve().parent, path, **overrides)


def bases(path: str) -> list[str]:
    """The bases that the variants of an experiment use, installed or not."""
    return [str(v.get("uses", "")) for v in _tables(_read(path), "variant", path)]


def _read(path: str) -> dict:
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"cannot read the experiment file {path}: {error}; give the path of a TOML file") from None
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadInput(f"{path} is not TOML: {error}; see the examples in lab/README.md") from None


def parse(raw: dict, directory: Path, source: str, **overrides) -> Experiment:
    """Turn parsed TOML into an experiment; relative directories are relative to `directory`."""
    _only(raw, _TOP, source)
    head = _Table(raw.get("experiment", {}), f"{source}: [experiment]")
    programs = tuple(_program(p, directory, source, n) for n, p in enumerate(_chosen(raw, "program", source, overrides.get("programs"))))
    shared_knob = _Table(raw["knob"], f"{source}: [knob]") if "knob" in raw else None
    knob = (shared_knob.text("name"), _values(shared_knob)) if shared_knob else None
    if shared_knob:
        shared_knob.finished()
    contenders = tuple(_variant(v, directory, knob, source, n) for n, v in enumerate(_chosen(raw, "variant", source, overrides.get("variants"))))
    contrasts = tuple(_contrast(c, source, n) for n, c in enumerate(raw.get("contrast", ())))
    stop = _stop(head, overrides)
    name = head.text("name", Path(source).stem)
    experiment = Experiment(
        name=name,
        title=head.text("title", name),
        note=head.text("note", ""),
        programs=programs,
        variants=contenders,
        baseline=head.text("baseline", contenders[0].name if contenders else ""),
        stop=stop,
        seed=int(_given(overrides, "seed", head.number("seed", 1))),
        time_metric=head.text("time", "cpu_s"),
        space_metric=head.text("space", "peak_mib"),
        sample_hz=head.number("sample_hz", 50.0),
        check=head.flag("check", True),
        figures=head.texts("figures", ()),
        metrics=head.texts("metrics", ()),
        contrasts=contrasts,
        headline=head.texts("headline", ()),
    )
    head.finished()
    _check_goals(experiment, source)
    left_out = {v.get("name") for v in _tables(raw, "variant", source)} - {v.name for v in contenders}
    return checked(_without(experiment, left_out), source)


def _check_goals(experiment: Experiment, source: str) -> None:
    """Before contrasts are left out, so that a goal of one of those is no mistake."""
    asked = [c.name for c in experiment.contrasts]
    for program in experiment.programs:
        for name in program.goals:
            if name not in asked:
                raise BadInput(f"{source}: {program.name} has a goal for {name!r}, which is no contrast; "
                               f"{'choose among ' + ', '.join(asked) if asked else 'add a [[contrast]] of that name'}")


def _without(experiment: Experiment, left_out: set) -> Experiment:
    """Contrasts with a variant that was not chosen are not asked."""
    asked = tuple(c for c in experiment.contrasts if not {c.variant, c.against} & left_out)
    return dataclasses.replace(experiment, contrasts=asked)


def _chosen(raw: dict, kind: str, source: str, names: list[str] | None) -> list[dict]:
    """The tables of one kind that are measured: those named, else all but those with `chosen = false`."""
    tables = [{k: v for k, v in table.items() if k != "chosen"} for table in _tables(raw, kind, source)
              if names is not None or table.get("chosen", True)]
    if names is None:
        return tables
    known = [table.get("name") for table in tables]
    for name in names:
        if name not in known:
            raise BadInput(f"{source}: there is no {kind} {name!r}; it has {', '.join(map(str, known))}")
    return [table for table in tables if table.get("name") in names]


def _stop(head: "_Table", overrides: dict) -> Stop:
    """`blocks` is short for blocks_min and blocks_max being equal."""
    exact = head.number("blocks", None)
    least, most = head.number("blocks_min", 10 if exact is None else exact), head.number("blocks_max", 30 if exact is None else exact)
    return Stop(
        blocks_min=int(_given(overrides, "blocks", least)),
        blocks_max=int(_given(overrides, "blocks", most)),
        precision=_given(overrides, "precision", head.number("precision", 0.02)),
        budget_s=_given(overrides, "budget_s", head.number("budget_s", None)),
    )


def _given(overrides: dict, name: str, otherwise):
    return otherwise if overrides.get(name) is None else overrides[name]


def _program(raw: dict, directory: Path, source: str, number: int) -> Program:
    table = _Table(raw, f"{source}: [[program]] {raw.get('name', number + 1)}")
    where = table.text("directory", None)
    program = Program(
        name=table.text("name"),
        command=table.texts("command", ()),
        environment=table.text_map("environment"),
        directory=str((directory / where).resolve()) if where else str(directory),
        timeout_s=table.number("timeout_s", 600.0),
        compare_output=table.choice("output", ("same", "ignore"), "same") == "same",
        ignore_lines=table.texts("ignore_lines", ()),
        server=_server(raw["server"], table.where) if "server" in raw else None,
        goals=table.number_map("goals"),
        figures=table.texts("figures", ()),
    )
    table.drop("server")
    table.finished()
    return program


def _contrast(raw: dict, source: str, number: int) -> Contrast:
    table = _Table(raw, f"{source}: [[contrast]] {raw.get('name', number + 1)}")
    contrast = Contrast(
        name=table.text("name"),
        metric=table.text("metric"),
        variant=table.text("variant"),
        against=table.text("against"),
        difference=table.choice("kind", ("ratio", "difference"), "ratio") == "difference",
    )
    table.finished()
    return contrast


def _server(raw: dict, where: str) -> Server:
    table = _Table(raw, f"{where} server")
    server = Server(
        port=int(table.number("port")),
        rate_per_s=table.number("rate_per_s"),
        duration_s=table.number("duration_s", 10.0),
        warm_up_s=table.number("warm_up_s", 1.0),
        paths=table.texts("paths", ("/",)),
        connections=int(table.number("connections", 32)),
        ready_timeout_s=table.number("ready_timeout_s", 30.0),
        stop_timeout_s=table.number("stop_timeout_s", 10.0),
    )
    table.finished()
    return server


def _variant(raw: dict, directory: Path, shared_knob: tuple | None, source: str, number: int) -> Variant:
    table = _Table(raw, f"{source}: [[variant]] {raw.get('name', number + 1)}")
    knob, values = shared_knob or (None, ())
    if "knob" in raw or "values" in raw:
        knob, values = table.text("knob"), _values(table)
    where = table.text("directory", None)
    variant = Variant(
        name=table.text("name"),
        base=table.text("uses", "env"),
        settings=table.text_map("settings"),
        environment=table.text_map("environment"),
        command=table.texts("command", ()),
        prefix=table.texts("prefix", ()),
        library=table.text("library", None),
        preload=table.text("preload", None),
        directory=str((directory / where).resolve()) if where else None,
        knob=knob,
        values=values,
    )
    table.finished()
    return variants.completed(variant)


def _values(table: "_Table") -> tuple[str, ...]:
    values = table.raw.pop("values", None)
    if not isinstance(values, list) or not all(isinstance(v, (str, int, float)) for v in values):
        raise BadInput(f"{table.where}: values is {values!r}; give a list such as values = [20, 40, 80, 160, 320]")
    return tuple(str(v) for v in values)


def _tables(raw: dict, name: str, source: str) -> list[dict]:
    tables = raw.get(name, [])
    if not isinstance(tables, list) or not tables or not all(isinstance(t, dict) for t in tables):
        raise BadInput(f"{source}: no [[{name}]] table; an experiment needs at least one")
    return tables


def _only(raw: dict, allowed: set[str], where: str) -> None:
    for key in raw:
        if key not in allowed:
            raise BadInput(f"{where}: unknown key {key!r}; known keys: {', '.join(sorted(allowed))}")


def _expanded(value, source: str):
    """Replace `${NAME}` and `${NAME:-default}` by the environment in every string; `$${NAME}` stays `${NAME}`."""
    if isinstance(value, dict):
        return {k: _expanded(v, source) for k, v in value.items()}
    if isinstance(value, list):
        return [_expanded(v, source) for v in value]
    if not isinstance(value, str):
        return value

    def lookup(match: re.Match) -> str:
        if match[1]:
            return match[0][1:]
        found = os.environ.get(match[2]) or match[3]
        if found is None:
            raise BadInput(f"{source}: {match[0]} is not set in the environment; set {match[2]} or write ${{{match[2]}:-default}}")
        return found

    return _REFERENCE.sub(lookup, value)


class _Table:
    """One TOML table, read key by key; a key nobody asked for is a mistake."""

    def __init__(self, raw: dict, where: str):
        if not isinstance(raw, dict):
            raise BadInput(f"{where} is {raw!r}; it must be a table")
        self.raw, self.where = dict(raw), where
        self.asked: set[str] = set()

    def _take(self, key: str, default, kinds: tuple, meant: str):
        self.asked.add(key)
        if key not in self.raw:
            if default is _REQUIRED:
                raise BadInput(f"{self.where}: {key} is missing; give {meant}")
            return default
        value = self.raw.pop(key)
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise BadInput(f"{self.where}: {key} = {value!r}; give {meant}")
        return value

    def text(self, key: str, default=...):
        return self._take(key, _REQUIRED if default is ... else default, (str,), "a string")

    def number(self, key: str, default=...):
        return self._take(key, _REQUIRED if default is ... else default, (int, float), "a number")

    def flag(self, key: str, default: bool) -> bool:
        return self._take(key, default, (bool,), "true or false")

    def choice(self, key: str, allowed: tuple[str, ...], default: str) -> str:
        value = self.text(key, default)
        if value not in allowed:
            raise BadInput(f"{self.where}: {key} = {value!r}; give one of {', '.join(allowed)}")
        return value

    def texts(self, key: str, default) -> tuple[str, ...]:
        value = self._take(key, list(default), (list,), 'a list of strings such as ["ruby", "program.rb"]')
        if not all(isinstance(v, (str, int, float)) for v in value):
            raise BadInput(f"{self.where}: {key} = {value!r}; give a list of strings")
        return tuple(str(v) for v in value)

    def text_map(self, key: str) -> dict[str, str]:
        value = self._take(key, {}, (dict,), "a table of strings")
        if not all(isinstance(v, (str, int, float)) for v in value.values()):
            raise BadInput(f"{self.where}: {key} = {value!r}; every value must be a string or a number")
        return {k: str(v) for k, v in value.items()}

    def number_map(self, key: str) -> dict[str, float]:
        value = self._take(key, {}, (dict,), "a table of numbers")
        if not all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in value.values()):
            raise BadInput(f"{self.where}: {key} = {value!r}; every value must be a number")
        return {k: float(v) for k, v in value.items()}

    def drop(self, *keys: str) -> None:
        self.asked.update(keys)
        for key in keys:
            self.raw.pop(key, None)

    def finished(self) -> None:
        if self.raw:
            key = next(iter(self.raw))
            raise BadInput(f"{self.where}: unknown key {key!r}; known keys: {', '.join(sorted(self.asked | {'knob', 'values'}))}")


_REQUIRED = object()
