"""How a command is made to run on the Ruby that is meant: what is started, and with which environment."""

import os
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path

from ashlar.errors import BadInput
from ashlar.trying.rubies import Ruby

_PROBE = Path(__file__).with_name("probe.rb")
_SCRIPT_BYTES = 256


@dataclass(frozen=True)
class Launch:
    command: tuple[str, ...]
    environment: dict[str, str]


def prepare(command: list[str], ruby: Ruby, gems_of: Ruby, scratch: Path) -> Launch:
    """`gems_of` is the Ruby that the gems were installed for. `scratch` is an empty folder that stays until the command has ended."""
    programs = scratch / "programs"
    programs.mkdir()
    folders = [*gems_of.programs, *(f for f in ruby.programs if f not in gems_of.programs)]
    for name, script in _scripts_in(folders).items():
        _write_stub(programs / name, f"#!{ruby.program}", f"$0 = {_ruby_string(script)}", "load $0")
    if ruby.program.name != "ruby":
        _write_stub(programs / "ruby", "#!/bin/sh", f'exec {shlex.quote(str(ruby.program))} "$@"')
    probe = scratch / "probe.rb"
    shutil.copyfile(_PROBE, probe)
    environment = {**os.environ, "ASHLAR_TRY_FOLDER": str(scratch),
                   "PATH": os.pathsep.join([str(programs), str(ruby.program.parent), os.environ.get("PATH", os.defpath)]),
                   "RUBYOPT": " ".join(filter(None, [f"-r{probe}", os.environ.get("RUBYOPT")]))}
    if ruby != gems_of:
        environment["GEM_PATH"] = os.pathsep.join(gems_of.gems)
        if ruby.extensions != gems_of.extensions:
            environment["RUBYLIB"] = os.pathsep.join(filter(None, [_defaults(scratch, gems_of.extensions), os.environ.get("RUBYLIB")]))
    return Launch(_on(command, ruby, programs), environment)


def _defaults(scratch: Path, extensions: str) -> str:
    """Gems in C lie in a folder that is named after how Ruby was built. These are some that both builds can load, so RubyGems is told where they
    are, by a file that it looks for before it, or Bundler, looks for any gem."""
    library = scratch / "library"
    file = library / "rubygems/defaults/operating_system.rb"
    file.parent.mkdir(parents=True)
    file.write_text(f"def Gem.extension_api_version = {_ruby_string(extensions)}\n")
    return str(library)


def _on(command: list[str], ruby: Ruby, programs: Path) -> tuple[str, ...]:
    """A Ruby script runs on this Ruby, whichever its first line names; so does `ruby`. Other programs find it on the PATH."""
    name, *arguments = command
    if os.sep not in name:
        if name == "ruby":
            return (str(ruby.program), *arguments)
        found = str(programs / name) if (programs / name).exists() else shutil.which(name)
        if found is None:
            raise BadInput(f"there is no program {name!r} on the PATH, and no gem of {ruby.program} has it; check the name, or write bundle exec {name}")
    else:
        found = name
        if not os.path.exists(found):
            raise BadInput(f"there is no {name}; check the path, it is looked for from {os.getcwd()}")
        if not os.access(found, os.X_OK) and not is_ruby_script(found):
            raise BadInput(f"{name} is not executable and has no first line that names ruby; write ruby {name}")
    if is_ruby_script(found):
        return (str(ruby.program), found, *arguments)
    if os.path.basename(os.path.realpath(found)).startswith("ruby") and os.path.realpath(found) != str(ruby.program):
        return (str(ruby.program), *arguments)  # another Ruby, named with its path
    return (found, *arguments)


def is_ruby_script(path: str | os.PathLike) -> bool:
    """Whether the first line says that Ruby runs it."""
    try:
        with open(path, "rb") as file:
            first = file.read(_SCRIPT_BYTES).split(b"\n")[0]
    except OSError:
        return False
    return first.startswith(b"#!") and any(word.rpartition(b"/")[2].startswith(b"ruby") for word in first[2:].split())


def _scripts_in(folders: list[str]) -> dict[str, str]:
    """Programs of gems by name; of the first folder that has them."""
    found: dict[str, str] = {}
    for path in (path for folder in folders for path in sorted(Path(folder).glob("*"))):
        if path.name not in found and os.access(path, os.X_OK) and path.is_file() and is_ruby_script(path):
            found[path.name] = str(path)
    return found


def _write_stub(path: Path, *lines: str) -> None:
    path.write_text("".join(f"{line}\n" for line in lines))
    path.chmod(0o755)


def _ruby_string(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
