"""An experiment made from `--variant`, `--knob`, `--program`, `--server`, `--goal` and a command."""

import dataclasses
import os
import re
import shlex
from collections.abc import Sequence
from functools import partial

from ashlar.errors import BadInput
from ashlar_lab import variants
from ashlar_lab.experiment.check import checked
from ashlar_lab.experiment.model import Contrast, Experiment, Program, Server, Stop, Variant


def build(specs: list[str], knobs: list[str], command: list[str], *, name: str | None, baseline: str | None,
          stop: Stop, curves: bool = False, programs: Sequence[str] = (), server: tuple[str, Server] | None = None, goals: Sequence[str] = (),
          timeout_s: float = 600.0, compare_output: bool = True, ignore_lines: Sequence[str] = (), **rest) -> Experiment:
    """Every variant gets the first knob it understands; a variant that understands none runs at one point, or with `curves` over the
    knob of its base. `server` is a command with {port}, and how it is driven."""
    if not specs:
        raise BadInput("no variant given; add --variant NAME at least once ('ashlar-lab variants' lists the built-in ones)")
    parsed_knobs = [_knob(k) for k in knobs]
    contenders = tuple(_variant(spec, parsed_knobs, curves) for spec in specs)
    for knob, _ in parsed_knobs:
        if not any(v.knob == knob for v in contenders):
            raise BadInput(f"no variant understands the knob {knob!r}; 'ashlar-lab variants' lists the knobs of each")
    chosen = baseline or contenders[0].name
    contrasts, asked = _goals(goals, [v.name for v in contenders if v.name != chosen], chosen)
    program = partial(Program, directory=os.getcwd(), timeout_s=timeout_s, compare_output=compare_output, ignore_lines=tuple(ignore_lines), goals=asked)
    made = tuple(program(*named) for named in map(_named_command, programs))
    if server:
        made += (program(*_server_command(server[0]), server=server[1]),)
    if command or not made:
        if not command and any(not v.command for v in contenders):
            raise BadInput("no command given; put it after --, as in: ashlar-lab compare --variant glibc --variant jemalloc -- ./program")
        made = (program(_short_name(command or contenders[0].command), tuple(command)), *made)
    title = name or ", ".join(shlex.join(p.command) or p.name for p in made)
    return checked(Experiment(name or made[0].name, made, contenders, chosen, stop, title, contrasts=contrasts, **rest), "command line")


def _short_name(command: Sequence[str]) -> str:
    return os.path.basename(command[0]).replace("=", "_") or "program"


def _words(text: str, option: str, said: str) -> tuple[str, ...]:
    """The words of a command, which is a part of what was said."""
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise BadInput(f"{option} {said!r} is no command: {str(error).lower()}") from None
    if not words:
        raise BadInput(f"{option} {said!r} names no command")
    return words


def _named_command(text: str) -> tuple[str, tuple[str, ...]]:
    name, equals, command = text.partition("=")
    if not equals or not name.strip() or not command.strip() or " " in name.strip():
        raise BadInput(f"--program {text!r} is not of the form NAME=COMMAND; for example --program 'sort=./sort --size 100'")
    return name.strip(), _words(command, "--program", command)


def _server_command(text: str) -> tuple[str, tuple[str, ...]]:
    words = _words(text, "--server", text)
    if not any("{port}" in w for w in words):
        raise BadInput(f"--server {text!r} says nowhere which port to listen on; put {{port}} where the port goes, as in --server 'ruby app.rb {{port}}'")
    return _short_name(words), words


_GOAL = re.compile(r"(?:(?P<variant>[^:<>]+):)?\s*(?P<metric>[a-z][a-z0-9_]*)\s*<=\s*(?P<most>[0-9]*\.?[0-9]+)\s*")


def _goals(goals: Sequence[str], names: list[str], baseline: str) -> tuple[tuple[Contrast, ...], dict[str, float]]:
    """`METRIC<=RATIO` for every variant of these names, or `VARIANT:METRIC<=RATIO`: the ratio to the baseline may be so much at most. Returns the
    contrasts, and the most that each may be."""
    contrasts: dict[str, Contrast] = {}
    asked: dict[str, float] = {}
    for goal in goals:
        found = _GOAL.fullmatch(goal)
        if not found:
            raise BadInput(f"--goal {goal!r} is not of the form METRIC<=RATIO or VARIANT:METRIC<=RATIO; for example --goal 'peak_mib<=0.9'")
        wanted = found["variant"].strip() if found["variant"] else None
        if wanted is not None and wanted not in names:
            raise BadInput(f"--goal {goal!r}: there is no variant {wanted!r} beside the baseline; {'choose among ' + ', '.join(names) if names else 'add one'}")
        for variant in names if wanted is None else [wanted]:
            name = f"{variant}: {found['metric']} / {baseline}"
            contrasts[name] = Contrast(name, found["metric"], variant, baseline)
            asked[name] = float(found["most"])
    return tuple(contrasts.values()), asked


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
    head, _, tail = spec.partition(":")
    label, _, base = head.rpartition("=")
    if base == "command":
        words = _words(tail, "--variant", spec)
        variant = Variant(label or os.path.basename(words[0]), "env", command=words)
    elif base == "preload":
        variant = Variant(label or os.path.basename(tail), "env", preload=tail, library=os.path.basename(tail))
    else:
        settings = dict(_setting(s, spec) for s in tail.split(",") if s.strip())
        variant = Variant(label or spec.replace(":", " ").replace("=", " ").replace(",", " "), base, settings=settings)
    variants.base(variant.base)  # an unknown base is named before anything else
    asked = [(knob, values) for knob, values in knobs if variants.understands(variant, knob)]
    if curves:
        asked += variants.base(variant.base).sweeps.items()
    if asked:
        knob, values = asked[0]
        variant = dataclasses.replace(variant, knob=knob, values=values)
    return variants.completed(variant)


def _setting(text: str, spec: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise BadInput(f"--variant {spec!r}: {text!r} is not setting=value")
    return name.strip(), value.strip()
