"""Read an experiment from TOML."""

import dataclasses
import os
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

from ashlar.errors import BadInput
from ashlar_lab.experiment.check import checked
from ashlar_lab.experiment.model import Contrast, Experiment, Program, Stop, Variant
from ashlar_lab.experiment.typed import in_every_string, read
from ashlar_lab.variants import completed

_TOP = {"experiment", "program", "variant", "knob", "contrast"}
_REFERENCE = re.compile(r"\$(\$)?\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
# What a file calls otherwise than the model does.
EXPERIMENT_KEYS, VARIANT_KEYS = {"time_metric": "time", "space_metric": "space"}, {"base": "uses"}


@dataclass(frozen=True)
class _Knob:
    name: str
    values: tuple[str, ...]


@dataclass(frozen=True)
class _Rule(Stop):
    """`blocks` is short for blocks_min and blocks_max being equal."""

    blocks: int | None = None


def load(path: str, **asked) -> Experiment:
    """Read `path`. What is asked for is as `parse` takes it."""
    return parse(_expanded(_read(path), path), Path(path).resolve().parent, path, **asked)


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
        raise BadInput(f"{path} is not TOML: {error}; ashlar-lab init writes one that is") from None


def parse(raw: dict, directory: Path, source: str, *, programs: list[str] | None = None, variants: list[str] | None = None, seed: int | None = None,
          turns_s: float | None = None, **stop) -> Experiment:
    """Turn parsed TOML into an experiment; relative directories are relative to `directory`. `programs` and `variants` choose by name among what it
    describes; `seed`, `turns_s` and what `Stop.extended` takes replace what it says."""
    if unknown := raw.keys() - _TOP:
        raise BadInput(f"{source}: unknown key {min(unknown)!r}; known keys: {', '.join(sorted(_TOP))}")
    knob = vars(read(_Knob, raw["knob"], f"{source}: [knob]")) if "knob" in raw else {}
    measured = tuple(_program(p, directory, _where(source, "program", p, n)) for n, p in enumerate(_chosen(raw, "program", source, programs)))
    contenders = tuple(_variant(v, directory, knob, _where(source, "variant", v, n)) for n, v in enumerate(_chosen(raw, "variant", source, variants)))
    contrasts = tuple(_contrast(c, _where(source, "contrast", c, n)) for n, c in enumerate(_tables(raw, "contrast", source) if "contrast" in raw else ()))
    where = f"{source}: [experiment]"
    if not isinstance(raw.get("experiment", {}), dict):
        raise BadInput(f"{source}: experiment is {raw['experiment']!r}; it must be one table, [experiment]")
    head = {"name": Path(source).stem, "baseline": contenders[0].name if contenders else "", **raw.get("experiment", {})}
    rule = _stop({k: head.pop(k) for k in ("blocks", "blocks_min", "blocks_max", "precision", "budget_s") if k in head}, where).extended(**stop)
    head |= {name: value for name, value in (("seed", seed), ("turns_s", turns_s)) if value is not None}
    if type(head.get("turns_s")) is int:  # 1 and 1.0 are the same experiment
        head["turns_s"] = float(head["turns_s"])
    experiment = read(Experiment, {"title": head["name"], **head, "programs": measured, "variants": contenders, "contrasts": contrasts, "stop": rule},
                      where, EXPERIMENT_KEYS)
    _check_goals(experiment, source)
    left_out = {v.get("name") for v in _tables(raw, "variant", source)} - {v.name for v in contenders}
    asked = tuple(c for c in experiment.contrasts if not {c.variant, c.against} & left_out)
    return checked(dataclasses.replace(experiment, contrasts=asked), source)


def _stop(told: dict, where: str) -> Stop:
    found = dict(vars(read(_Rule, told, where)))
    if (blocks := found.pop("blocks")) is not None:
        found |= {k: blocks for k in ("blocks_min", "blocks_max") if k not in told}
    return Stop(**found)


def _check_goals(experiment: Experiment, source: str) -> None:
    """Before contrasts are left out, so that a goal of one of those is no mistake."""
    asked = [c.name for c in experiment.contrasts]
    for program in experiment.programs:
        for name in program.goals:
            if name not in asked:
                raise BadInput(f"{source}: {program.name} has a goal for {name!r}, which is no contrast; "
                               f"{'choose among ' + ', '.join(asked) if asked else 'add a [[contrast]] of that name'}")


def _tables(raw: dict, name: str, source: str) -> list[dict]:
    tables = raw.get(name, [])
    if not isinstance(tables, list) or not tables or not all(isinstance(t, dict) for t in tables):
        raise BadInput(f"{source}: no [[{name}]] table; an experiment needs at least one")
    return tables


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


def _where(source: str, kind: str, raw: dict, number: int) -> str:
    return f"{source}: [[{kind}]] {raw.get('name', number + 1)}"


def _choice(raw: dict, key: str, usual: str, other: str, where: str) -> tuple[dict, bool]:
    """The table without a key that says one of two words, and whether it says the other than the usual one."""
    said = raw.get(key, usual)
    if said not in (usual, other):
        raise BadInput(f"{where}: {key} = {said!r}; give one of {usual}, {other}")
    return {k: v for k, v in raw.items() if k != key}, said == other


def _program(raw: dict, directory: Path, where: str) -> Program:
    raw, ignored = _choice(raw, "output", "same", "ignore", where)
    found = read(Program, {**raw, "compare_output": not ignored}, where)
    return dataclasses.replace(found, directory=str((directory / found.directory).resolve() if found.directory else directory))


def _variant(raw: dict, directory: Path, knob: dict, where: str) -> Variant:
    shared = {} if "knob" in raw or "values" in raw else {"knob": knob.get("name"), "values": knob.get("values", ())}
    found = read(Variant, {"uses": "env", **raw, **shared}, where, VARIANT_KEYS)
    if (found.knob is None) != ("values" not in raw and "values" not in knob):
        raise BadInput(f"{where}: knob and values belong together; give both, such as knob = \"o\" and values = [20, 40, 80, 160, 320]")
    if found.directory:
        found = dataclasses.replace(found, directory=str((directory / found.directory).resolve()))
    return completed(found)


def _contrast(raw: dict, where: str) -> Contrast:
    raw, difference = _choice(raw, "kind", "ratio", "difference", where)
    return read(Contrast, {**raw, "difference": difference}, where)


def _expanded(value, source: str):
    """Replace `${NAME}` and `${NAME:-default}` by the environment in every string; `$${NAME}` stays `${NAME}`."""
    def lookup(match: re.Match) -> str:
        if match[1]:
            return match[0][1:]
        found = os.environ.get(match[2]) or match[3]
        if found is None:
            raise BadInput(f"{source}: {match[0]} is not set in the environment; set {match[2]} or write ${{{match[2]}:-default}}")
        return found

    return in_every_string(lambda text: _REFERENCE.sub(lookup, text), value)
