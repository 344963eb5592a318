"""Write an experiment as TOML that reads back as the same experiment."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

from ashlar_lab import variants
from ashlar_lab.experiment.model import Contrast, Experiment, Program, Server, Variant

_REFERENCE = re.compile(r"\$(?=\$?\{[A-Za-z_])")
_BARE = re.compile(r"[A-Za-z0-9_-]+")


def text(experiment: Experiment, folder: Path) -> str:
    """The experiment as a file in `folder`; folders are written relative to it."""
    parts = ["# ashlar-lab compare --experiment THIS_FILE", "", *_head(experiment)]
    for program in experiment.programs:
        parts += ["", *_program(program, folder)]
    for variant in experiment.variants:
        parts += ["", *_variant(variant, folder)]
    for contrast in experiment.contrasts:
        parts += ["", *_contrast(contrast)]
    return "\n".join(parts) + "\n"


def _head(e: Experiment) -> list[str]:
    plain = Experiment("", (), (), "")
    stop = e.stop
    lines = ["[experiment]", _line("name", e.name)]
    lines += [_line("title", e.title)] if e.title != e.name else []
    lines += [_line("note", e.note)] if e.note else []
    lines += [_line("baseline", e.baseline) + "    # the variant that is 1.00"]
    lines += [_line("blocks", stop.blocks_min)] if stop.blocks_min == stop.blocks_max else [_line("blocks_min", stop.blocks_min), _line("blocks_max", stop.blocks_max)]
    lines += [_line("precision", stop.precision) + "    # stop when every interval is within this fraction"]
    lines += [_line("budget_s", stop.budget_s)] if stop.budget_s is not None else []
    for key, value, usual in (("seed", e.seed, plain.seed), ("time", e.time_metric, plain.time_metric), ("space", e.space_metric, plain.space_metric),
                              ("sample_hz", e.sample_hz, plain.sample_hz), ("check", e.check, plain.check), ("figures", e.figures, ()), ("headline", e.headline, ())):
        lines += [_line(key, value)] if value != usual else []
    return lines


def _program(p: Program, folder: Path) -> list[str]:
    usual = Program("")
    lines = ["[[program]]", _line("name", p.name)]
    lines += [_line("command", p.command)] if p.command else []
    lines += [_line("directory", os.path.relpath(p.directory, folder))] if p.directory and Path(p.directory) != folder else []
    lines += [_line("environment", p.environment)] if p.environment else []
    lines += [_line("timeout_s", p.timeout_s)] if p.timeout_s != usual.timeout_s else []
    lines += [] if p.compare_output else [_line("output", "ignore")]
    lines += [_line("ignore_lines", p.ignore_lines)] if p.ignore_lines else []
    lines += [_line("server", _server(p.server))] if p.server else []
    lines += [_line("goals", p.goals)] if p.goals else []
    return lines


def _server(s: Server) -> dict:
    usual = Server(0, 1)
    found = {"port": s.port, "rate_per_s": s.rate_per_s, "duration_s": s.duration_s, "warm_up_s": s.warm_up_s, "connections": s.connections, "paths": s.paths}
    rest = {"ready_timeout_s": s.ready_timeout_s, "stop_timeout_s": s.stop_timeout_s}
    return {**found, **{k: v for k, v in rest.items() if v != getattr(usual, k)}}


def _variant(v: Variant, folder: Path) -> list[str]:
    lines = ["[[variant]]", _line("name", v.name)]
    lines += [_line("uses", v.base)] if v.base != "env" else []
    settings = _given(v)
    lines += [_line("settings", settings)] if settings else []
    for key in ("environment", "command", "prefix"):
        lines += [_line(key, getattr(v, key))] if getattr(v, key) else []
    # A base finds its own library; only one that was named belongs into the file.
    lines += [_line("preload", v.preload), _line("library", v.library)] if v.preload and v.base == "env" else []
    lines += [_line("knob", v.knob), _line("values", v.values)] if v.knob else []
    lines += [_line("directory", os.path.relpath(v.directory, folder))] if v.directory else []
    return lines


def _given(v: Variant) -> dict[str, str]:
    """The settings without those that the base would find again by itself, which may be elsewhere on another machine."""
    found = variants.BASES[v.base].found({}) if v.base in variants.BASES else {}
    return {k: value for k, value in v.settings.items() if found.get(k) != value}


def _contrast(c: Contrast) -> list[str]:
    lines = ["[[contrast]]", _line("name", c.name), _line("metric", c.metric), _line("variant", c.variant), _line("against", c.against)]
    return lines + ([_line("kind", "difference")] if c.difference else [])


def _line(key: str, value) -> str:
    return f"{key} = {_value(value)}"


def _value(value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, str):
        literal = _REFERENCE.sub(lambda _: "$$", value)  # what looks like a reference to the environment stays what it is
        return json.dumps(literal, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{k if _BARE.fullmatch(k) else _value(k)} = {_value(v)}" for k, v in value.items()) + " }"
    return "[" + ", ".join(_value(v) for v in value) + "]"
