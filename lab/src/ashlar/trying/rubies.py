"""The two Rubies: where they are, what they are, and where gems are installed for them."""

import contextlib
import os
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ashlar.errors import BadInput
from ashlar.said import one_line

STOCK, ASHLAR = "stock", "ashlar"
# What a Ruby says of itself, a line each. It is found as the user's shell finds it, so a version manager's shim has chosen already.
_QUESTION = """
require "rbconfig"
say = ->(name, value) { puts "ashlar-try #{name} #{value}" }
say["engine", RUBY_ENGINE]
say["program", File.readlink("/proc/self/exe")]
say["version", RUBY_VERSION]
say["description", RUBY_DESCRIPTION]
say["abi", RbConfig::CONFIG["ruby_version"]]
say["collector", (GC.respond_to?(:config) && GC.config[:implementation]) || "default"]
say["shared", RbConfig::CONFIG["ENABLE_SHARED"]]
say["extensions", Gem.extension_api_version]
say["platform", Gem::Platform.local]
say["programs", RbConfig::CONFIG["bindir"]]
say["programs", Gem.bindir]
Gem.path.each { |folder| say["gems", folder]; say["programs", File.join(folder, "bin")] }
"""
_LIMIT_S = 30
# Where version managers and people put Rubies, below the home folder or from the root.
_ELSEWHERE = (".rbenv/versions/*/bin", ".asdf/installs/ruby/*/bin", ".local/share/mise/installs/ruby/*/bin", ".rubies/*/bin", ".rvm/rubies/*/bin")
_FROM_ROOT = ("opt/rubies/*/bin", "usr/local/rbenv/versions/*/bin", "opt/ruby*/bin")


class Ruby(NamedTuple):
    """`program` is the file that its processes run; `gems` and `programs` are the folders of gems and of their programs, the first ones first."""

    program: Path
    version: str
    description: str
    abi: str
    collector: str
    shared: bool
    extensions: str
    platform: str
    gems: tuple[str, ...]
    programs: tuple[str, ...]

    @property
    def is_ashlar(self) -> bool:
        return self.collector == "ashlar"


def ask(program: str | os.PathLike) -> Ruby:
    """What the Ruby at `program` says of itself; through a shim, what the shim starts. Raises BadInput with why a program is none that can be asked."""
    environment = {name: value for name, value in os.environ.items() if name not in ("RUBYOPT", "BUNDLE_GEMFILE")}
    try:
        done = subprocess.run([program, "-e", _QUESTION], capture_output=True, text=True, errors="replace", env=environment, stdin=subprocess.DEVNULL,
                              timeout=_LIMIT_S)
    except OSError as error:
        raise BadInput(error.strerror) from None
    except subprocess.TimeoutExpired:
        raise BadInput(f"it has said nothing for {_LIMIT_S} s") from None
    told = defaultdict(list)
    for name, value in re.findall("^ashlar-try (\\S+) (.*)$", done.stdout, re.MULTILINE):
        told[name].append(value)
    if "platform" not in told:
        raise BadInput(one_line((done.stderr.strip().splitlines() or [f"it ended with status {done.returncode}"])[0]))
    if told["engine"] != ["ruby"]:
        raise BadInput(f"it is {told['engine'][0]}, and CRuby is wanted")
    one = {name: values[0] for name, values in told.items()}
    return Ruby(Path(one["program"]), one["version"], one["description"], one["abi"], one["collector"], one["shared"] == "yes", one["extensions"], one["platform"],
                tuple(dict.fromkeys(told["gems"])), tuple(dict.fromkeys(told["programs"])))


def _program_in(given: str) -> str:
    """A Ruby that a user named: the program, or the folder that it was installed in."""
    try:
        path = Path(given).expanduser()
    except RuntimeError:
        raise BadInput(f"{given} is in the home folder of a user that is not there; name a ruby program, such as /opt/ruby/bin/ruby") from None
    for found in (path / "bin/ruby", path / "ruby"):
        if path.is_dir() and found.exists():
            return str(found)
    if path.is_dir():
        raise BadInput(f"{given} has no bin/ruby; name the program itself, such as /opt/ruby/bin/ruby")
    if not path.exists():
        raise BadInput(f"there is no {given}; name a ruby program, such as /opt/ruby/bin/ruby")
    return str(path.absolute())


def _named(given: str, other: str) -> tuple[str, Ruby]:
    """The program, and what a Ruby that is meant says of itself; `other` is what to name where it says nothing."""
    program = _program_in(given)
    try:
        return program, ask(program)
    except BadInput as why:
        raise BadInput(f"{program} cannot be asked: {why}; name {other}") from None


def of_ashlar(given: str | None) -> Ruby:
    """The Ruby with Ashlar inside: the one that was named, or the one beside the program `ashlar`."""
    beside = Path(sys.argv[0]).resolve().parent / "ruby"
    if given is None and not beside.exists():
        raise BadInput(f"there is no ruby with Ashlar inside beside {sys.argv[0]}; name one with --ashlar /path/to/bin/ruby")
    program, found = _named(str(beside) if given is None else given, "a Ruby with Ashlar inside with --ashlar")
    if not found.is_ashlar:
        raise BadInput(f"{program} has the collector {found.collector!r} inside, not Ashlar; name another Ruby with --ashlar")
    return found


def of_stock(given: str | None, other: Ruby | None) -> Ruby:
    """Stock Ruby: the one that was named, or the first one of the other's version."""
    program, found = ("", _search(other)) if given is None else _named(given, "a stock Ruby with --stock")
    if found.is_ashlar:
        raise BadInput(f"{program} has Ashlar inside; name a Ruby without it with --stock")
    if other and found.abi != other.abi:
        raise BadInput(f"stock Ruby is {found.version} ({found.program}) and Ashlar's is {other.version}: they cannot use the same gems; "
                       f"name a stock Ruby {other.version} with --stock, or see Ashlar's side with --only ashlar")
    return found


def _search(other: Ruby | None) -> Ruby:
    seen: dict[Path, Ruby] = {}
    for program in _candidates(other.version if other else ""):
        with contextlib.suppress(BadInput):
            found = ask(program)
            if not found.is_ashlar and (other is None or found.version == other.version):
                return found
            seen.setdefault(found.program, found)
    wanted = f"Ruby {other.version}" if other else "Ruby"
    others = [f"{one.version} at {program}" for program, one in seen.items() if not one.is_ashlar]
    raise BadInput(f"there is no stock {wanted} on the PATH{' (' + ', '.join(others[:3]) + ')' if others else ''}; install one, name it with --stock /path/to/bin/ruby, "
                   "or see Ashlar's side with --only ashlar")


def _candidates(version: str) -> Iterator[str]:
    """On the PATH first, then where version managers keep those of this version."""
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        for name in ("ruby", f"ruby{version.rpartition('.')[0]}" if version else ""):
            program = os.path.join(folder or ".", name)
            if name and os.access(program, os.X_OK) and not os.path.isdir(program):
                yield program
    for root, patterns in ((Path.home(), _ELSEWHERE), (Path("/"), _FROM_ROOT)):
        for pattern in patterns:
            yield from (str(folder / "ruby") for folder in sorted(root.glob(pattern)) if version in folder.parent.name and (folder / "ruby").exists())


def native_gems_need_libruby(stock: Ruby) -> str | None:
    """The first of stock's compiled gems that loads stock's own libruby.so, which another Ruby cannot have in it."""
    for folder in stock.gems:
        for library in sorted(Path(folder).glob(f"extensions/*/{stock.extensions}/**/*.so")):
            if b"libruby.so" in library.read_bytes():
                return str(library)
    return None
