"""The contenders the lab knows by name, and how a variant becomes a command and an environment."""

import dataclasses
import difflib
import glob
import os
import platform
import re
import shutil
from dataclasses import dataclass

from ashlar.errors import BadInput
from ashlar_lab.experiment.model import Program, Variant
from ashlar_lab.variants import preload, ruby, runtimes
from ashlar_lab.variants.base import Base

ENV = Base("env", "anything else: every setting is an environment variable or a {placeholder}", any_setting=True)
BASES: dict[str, Base] = {b.name: b for b in (*preload.ALL, runtimes.OCAML, ruby.RUBY, ruby.STOCK, ruby.ASHLAR, runtimes.GO, runtimes.JVM, runtimes.NODE, ENV)}
_PLACEHOLDER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")


@dataclass(frozen=True)
class Start:
    """Everything needed to start one run of one arm."""

    command: tuple[str, ...]
    environment: dict[str, str]
    preload: str | None
    library: str | None
    path: str | None = None  # a folder in front of PATH


def base(name: str) -> Base:
    """The built-in contender of that name."""
    if name in BASES:
        return BASES[name]
    near = difflib.get_close_matches(name, BASES, n=1)
    hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(BASES)}"
    raise BadInput(f"unknown variant {name!r}; {hint} (for anything else: --variant 'NAME=command:...' or a TOML file)")


def understands(variant: Variant, setting: str) -> bool:
    """Whether `setting` means something to this variant."""
    known = base(variant.base)
    return known.any_setting or setting in known.settings or setting.isupper()


def library_file(known: Base) -> str | None:
    """The shared library of a preloaded allocator on this machine, or None when it is not installed."""
    machine = platform.machine()
    found = (sorted(glob.glob(pattern.format(multiarch=f"{machine}-linux-gnu", machine=machine))) for pattern in known.files)
    return next((files[-1] for files in found if files), None)


def completed(variant: Variant) -> Variant:
    """The variant with its library found and its settings checked."""
    known = base(variant.base)
    for setting in (*variant.settings, *((variant.knob,) if variant.knob else ())):
        if not understands(variant, setting):
            raise BadInput(f"variant {variant.name}: {known.name} has no setting {setting!r}; it has {', '.join(known.settings) or 'none'}")
    variant = dataclasses.replace(variant, settings={**known.found(variant.settings), **variant.settings})
    if variant.preload:
        if not os.path.exists(variant.preload):
            raise BadInput(f"variant {variant.name}: the library {variant.preload} does not exist; give the path of a shared library")
        library = variant.library or os.path.basename(variant.preload)
        return dataclasses.replace(variant, preload=os.path.abspath(variant.preload), library=library)
    if known.files:
        found = library_file(known)
        if not found:
            raise BadInput(f"variant {variant.name}: {known.name} is not installed; apt-get install {known.package} (or add --install as root)")
        return dataclasses.replace(variant, preload=found, library=variant.library or known.library)
    return variant


def start_of(program: Program, variant: Variant, value: str | None, port: int | None = None) -> Start:
    """How to start `program` under `variant` with its knob at `value`."""
    settings = dict(variant.settings)
    if variant.knob is not None and value is not None:
        settings[variant.knob] = value
    known = base(variant.base)
    placed = set(_PLACEHOLDER.findall("\0".join((*program.command, *variant.command, *variant.prefix, *variant.environment.values()))))
    variables = {name: setting for name, setting in settings.items() if name.isupper() or (known.any_setting and name not in placed)}
    environment = {**program.environment, **known.environment(settings), **variables, **variant.environment}
    fill = {**settings, "value": value or "", "variant": variant.name, "program": program.name, **({} if port is None else {"port": str(port)})}
    command = tuple(_filled(word, fill) for word in (*variant.prefix, *(variant.command or program.command)))
    return Start(command, {k: _filled(v, fill) for k, v in environment.items()}, variant.preload, variant.library or known.mapped(settings), known.path(settings))


def executable(start: Start) -> str:
    """What a start's command names: the file, where a folder in front of PATH decides which."""
    found = shutil.which(start.command[0], path=f"{start.path}:{os.environ.get('PATH', os.defpath)}") if start.path else None
    return found or start.command[0]


def _filled(text: str, fill: dict[str, str]) -> str:
    return _PLACEHOLDER.sub(lambda m: fill.get(m[1], m[0]), text)
