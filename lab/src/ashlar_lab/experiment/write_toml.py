"""Write an experiment as TOML that reads back as the same experiment."""

import dataclasses
import os
import re
from pathlib import Path

import tomli_w

from ashlar_lab import variants
from ashlar_lab.experiment.model import Experiment, Program, Variant
from ashlar_lab.experiment.toml import EXPERIMENT_KEYS, VARIANT_KEYS
from ashlar_lab.experiment.typed import in_every_string

_REFERENCE = re.compile(r"\$(?=\$?\{[A-Za-z_])")
_HEADER = """\
# ashlar-lab compare --experiment THIS_FILE
# The baseline is the variant that is 1.00; blocks end when every interval is within the precision after five blocks in a row.

"""


def text(experiment: Experiment, folder: Path) -> str:
    """The experiment as a file in `folder`; folders are written relative to it."""
    stop = experiment.stop
    head = {**_given(experiment, EXPERIMENT_KEYS, "stop", "programs", "variants", "contrasts"), **_given(stop, {}, "blocks_min", "blocks_max"), "precision": stop.precision,
            **({"blocks": stop.blocks_min} if stop.blocks_min == stop.blocks_max else {"blocks_min": stop.blocks_min, "blocks_max": stop.blocks_max})}
    parts = {"experiment": head, "program": [_program(p, folder) for p in experiment.programs], "variant": [_variant(v, folder) for v in experiment.variants]}
    if experiment.contrasts:
        parts["contrast"] = [{**_given(c, {}, "difference"), **({"kind": "difference"} if c.difference else {})} for c in experiment.contrasts]
    return _HEADER + tomli_w.dumps(parts)


def _program(p: Program, folder: Path) -> dict:
    found = _given(p, {}, "compare_output", "directory")
    found |= {"directory": os.path.relpath(p.directory, folder)} if p.directory and Path(p.directory) != folder else {}
    return found if p.compare_output else {**found, "output": "ignore"}


def _variant(v: Variant, folder: Path) -> dict:
    # The settings that the base would find again by itself may be elsewhere on another machine; and it finds its own library.
    again = variants.BASES[v.base].found({}) if v.base in variants.BASES else {}
    own = dataclasses.replace(v, settings={k: value for k, value in v.settings.items() if again.get(k) != value})
    found = _given(own, VARIANT_KEYS, "directory", *(() if v.base == "env" else ("preload", "library")))
    return {**found, "directory": os.path.relpath(v.directory, folder)} if v.directory else found


def _given(thing, keys: dict[str, str], *left_out: str) -> dict:
    """The fields that say something else than is taken for granted."""
    usual = {f.name: f.default_factory() if f.default_factory is not dataclasses.MISSING else f.default for f in dataclasses.fields(thing)}
    given = {keys.get(name, name): value for name, value in dataclasses.asdict(thing).items() if name not in left_out and getattr(thing, name) != usual[name]}
    return in_every_string(lambda text: _REFERENCE.sub("$$", text), given)  # what looks like a reference to the environment stays what it is
