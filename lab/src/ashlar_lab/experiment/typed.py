"""A table of text, numbers and lists made into a dataclass by its annotations. Every complaint names the key, the value and what would do."""

import dataclasses
import math
import typing
from collections.abc import Callable, Mapping
from types import NoneType

from ashlar.errors import BadInput

_MEANT = {str: "a string", int: "a number", float: "a number", bool: "true or false", tuple: 'a list of strings such as ["ruby", "program.rb"]', dict: "a table"}


def in_every_string(change: Callable[[str], str], value):
    """The same tables and lists with each of their strings changed."""
    if isinstance(value, dict):
        return {k: in_every_string(change, v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [in_every_string(change, v) for v in value]
    return change(value) if isinstance(value, str) else value


def read(kind, raw, where: str, keys: Mapping[str, str] = {}):
    """`keys` has the keys of fields that are called otherwise. What is made already is taken as it is."""
    if not isinstance(raw, dict):
        raise BadInput(f"{where} is {raw!r}; it must be a table")
    left, found, known = dict(raw), {}, []
    for field in dataclasses.fields(kind):
        key, hint = keys.get(field.name, field.name), field.type
        known.append(key)
        if key in left:
            found[field.name] = _value(hint, left.pop(key), where, key)
        elif field.default is field.default_factory:  # it has neither
            raise BadInput(f"{where}: {key} is missing; give {_MEANT.get(typing.get_origin(hint) or hint, 'a table')}")
    if left:
        raise BadInput(f"{where}: unknown key {next(iter(left))!r}; known keys: {', '.join(sorted(known))}")
    return kind(**found)


def _value(hint, value, where: str, key: str):
    inner = typing.get_args(hint)
    if NoneType in inner:
        return None if value is None else _value(inner[0], value, where, key)
    kind = typing.get_origin(hint) or hint
    if dataclasses.is_dataclass(kind):
        return value if isinstance(value, kind) else read(kind, value, f"{where} {key}")
    if kind is tuple and dataclasses.is_dataclass(inner[0]):
        return tuple(_value(inner[0], one, where, key) for one in value)
    if isinstance(value, float) and not math.isfinite(value):
        raise BadInput(f"{where}: {key} = {value!r}; give a finite number")
    wanted = {tuple: (list, tuple), float: (int, float), int: (int, float)}.get(kind, kind)
    if not isinstance(value, wanted) or isinstance(value, bool) and kind is not bool:
        raise BadInput(f"{where}: {key} = {value!r}; give {_MEANT[kind]}")
    if kind is tuple:
        if not all(isinstance(v, (str, int, float)) for v in value):
            raise BadInput(f"{where}: {key} = {value!r}; give a list of strings")
        return tuple(str(v) for v in value)
    if kind is dict:
        of = float if inner[1] is float else str
        if not all(isinstance(v, (int, float) if of is float else (str, int, float)) and not (of is float and isinstance(v, bool)) for v in value.values()):
            raise BadInput(f"{where}: {key} = {value!r}; every value must be a {'number' if of is float else 'string or a number'}")
        return {k: of(v) for k, v in value.items()}
    return int(value) if kind is int else value
