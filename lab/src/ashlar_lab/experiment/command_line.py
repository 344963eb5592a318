"""The simple case: an experiment made from `--variant`, `--knob` and a command."""

from __future__ import annotations

import os
import shlex

from ashlar_lab import variants
from ashlar_lab.errors import BadInput
from ashlar_lab.experiment.check import checked
from ashlar_lab.experiment.model import Experiment, Program, Server, Stop, Variant

_SOURCE = "command line"


def build(specs: list[str], knobs: list[str], command: list[str], *, name: str | None, baseline: str | None,
          stop: Stop, curves: bool = False, server: Server | None = None, **rest) -> Experiment:
    """Every variant gets the first knob it understands; a variant that understands none runs at one point, or with `curves` over the
    knob of its base."""
    if not specs:
        raise BadInput("no variant given; add --variant NAME at least once ('ashlar variants' lists the built-in ones)")
    parsed_knobs = [_knob(k) for k in knobs]
    contenders = tuple(_variant(spec, parsed_knobs, curves) for spec in specs)
    for knob, _ in parsed_knobs:
        if not any(v.knob == knob for v in contenders):
            raise BadInput(f"no variant understands the knob {knob!r}; 'ashlar variants' lists the knobs of each")
    if not command and any(not v.command for v in contenders):
        raise BadInput("no command given; put it after --, as in: ashlar compare --variant glibc --variant jemalloc -- ./program")
    program_name = os.path.basename(command[0] if command else contenders[0].command[0]).replace("=", "_") or "program"
    program = Program(program_name, tuple(command), directory=os.getcwd(), server=server,
                      timeout_s=rest.pop("timeout_s", 600.0), compare_output=rest.pop("compare_output", True),
                      ignore_lines=tuple(rest.pop("ignore_lines", ())))
    experiment = Experiment(
        name=name or program_name,
        title=name or f"{shlex.join(command) or program_name}",
        programs=(program,),
        variants=contenders,
        baseline=baseline or contenders[0].name,
        stop=stop,
        **rest,
    )
    return checked(experiment, _SOURCE)


def base_of(spec: str) -> str:
    """The base that a --variant names: `jemalloc` in `LABEL=jemalloc:narenas=1`."""
    return spec.partition(":")[0].rpartition("=")[2]


def _knob(text: str) -> tuple[str, tuple[str, ...]]:
    name, equals, values = text.partition("=")
    found = tuple(v.strip() for v in values.split(",") if v.strip())
    known = next((b.sweeps[name] for b in variants.BASES.values() if name in b.sweeps), None)
    if known and not equals:
        return name, known
    if not name or not equals or not found:
        raise BadInput(f"--knob {text!r} is not of the form NAME=VALUE,VALUE,...; for example --knob o=20,40,80,160,320")
    if len(found) < 2:
        raise BadInput(f"--knob {name} has one value ({found[0]}); give at least two, seven or more for a curve")
    return name, found


def _variant(spec: str, knobs: list[tuple[str, tuple[str, ...]]], curves: bool) -> Variant:
    """`BASE`, `BASE:setting=value,...`, `LABEL=BASE:...`, or `LABEL=command:COMMAND`."""
    head, colon, tail = spec.partition(":")
    label, equals, base = head.partition("=")
    if not equals:
        base, label = label, ""
    if base == "command":
        words = tuple(shlex.split(tail))
        if not words:
            raise BadInput(f"--variant {spec!r} names no command; for example --variant 'old=command:./old --size 10'")
        variant = Variant(label or os.path.basename(words[0]), "env", command=words)
    elif base == "preload":
        variant = Variant(label or os.path.basename(tail), "env", preload=tail, library=os.path.basename(tail))
    else:
        settings = dict(_setting(s, spec) for s in tail.split(",") if s.strip()) if colon else {}
        variant = Variant(label or spec.replace(":", " ").replace("=", " ").replace(",", " "), base, settings=settings)
    variants.base(variant.base)  # an unknown base is named before anything else
    for knob, values in knobs:
        if variants.understands(variant, knob):
            variant = Variant(**{**variant.__dict__, "knob": knob, "values": values})
            break
    sweeps = variants.base(variant.base).sweeps
    if curves and not variant.knob and sweeps:
        knob, values = next(iter(sweeps.items()))
        variant = Variant(**{**variant.__dict__, "knob": knob, "values": values})
    return variants.completed(variant)


def _setting(text: str, spec: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise BadInput(f"--variant {spec!r}: {text!r} is not setting=value")
    return name.strip(), value.strip()
