"""What travels to the machines of a cluster, by content hash, and what must be there already, checked by content hash.

Files and folders that a command, a setting or an environment value names by path travel, and so do preloaded libraries; they
are laid out in a folder of the session, and the paths are put right. What is installed (under /usr and the like), what a command
names without a path (`ruby`), and what the user says is there, must be there with the same content. What nobody names
has to be added: `--ship PATH`.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import ashlar
import ashlar_lab
from ashlar.memory import launcher, native
from ashlar_lab import variants
from ashlar_lab.errors import BadInput
from ashlar_lab.experiment.model import Experiment
from ashlar_lab.measure import serve

_INSTALLED = ("/usr/", "/bin/", "/sbin/", "/lib/", "/lib64/", "/etc/", "/nix/", "/snap/", "/opt/")
_NO_FILES = ("/proc/", "/sys/", "/dev/", "/run/")
# More than this is not sent: it would be faster to have it there, and it is probably a mistake.
LARGEST_BYTES = 2 << 30
_ROOT = "\0root\0"  # stands for the session's folder, which has another path on every machine


@dataclass
class Parcel:
    """`manifest` is (path in the session's folder, SHA-256 or None for an empty folder, mode); `sources` SHA-256 → the file, or bytes
    for what was made here. `places` maps a path here to its path in the session's folder. `there` has the SHA-256 of what must be
    there already, by path or bare name. `digests` is path → SHA-256 of all of it, for the store."""

    experiment: Experiment
    manifest: list[tuple[str, str | None, int]] = field(default_factory=list)
    sources: dict[str, Path | bytes] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)
    there: dict[str, str] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)

    def placed(self, root: str) -> Experiment:
        """The experiment as a machine runs it, whose session's folder is `root`."""
        def put(text: str | None) -> str | None:
            for source in sorted(self.places, key=len, reverse=True):
                if text and source in text and source != "/":
                    place = _ROOT + self.places[source]
                    text = re.sub(rf"(^-[A-Za-z]|(?<![\w.-])){re.escape(source)}(?![\w.-])", lambda found: found[1] + place, text)
            return text.replace(_ROOT, root + "/") if text else text

        def words(found: Sequence[str]) -> tuple[str, ...]:
            return tuple(put(w) for w in found)

        def table(found: dict[str, str]) -> dict[str, str]:
            return {k: put(v) for k, v in found.items()}

        programs = tuple(dataclasses.replace(p, command=words(p.command), environment=table(p.environment), directory=f"{root}/{self.places[p.directory or os.getcwd()]}")
                         for p in self.experiment.programs)
        contenders = tuple(dataclasses.replace(v, command=words(v.command), prefix=words(v.prefix), settings=table(v.settings), values=words(v.values),
                                               environment=table(v.environment), preload=put(v.preload),
                                               directory=put(v.directory)) for v in self.experiment.variants)
        return dataclasses.replace(self.experiment, programs=programs, variants=contenders)

    def back(self, text: str, root: str) -> str:
        """Text of a run with the paths of here in place of the machine's."""
        for source, place in sorted(self.places.items(), key=lambda item: -len(item[1])):
            text = text.replace(f"{root}/{place}", source)
        return text

    def data(self, digest: str) -> Iterator[bytes]:
        """The content of one file in pieces of 8 MiB; an empty file has one empty piece."""
        source = self.sources[digest]
        with io.BytesIO(source) if isinstance(source, bytes) else open(source, "rb") as file:
            piece = file.read(8 << 20)
            yield piece
            while piece := file.read(8 << 20):
                yield piece


def packed(experiment: Experiment, ships: Iterable[str] = (), there: Iterable[str] = ()) -> Parcel:
    """The parcel of an experiment. `ships` are further files and folders that travel, `there` are paths that do not."""
    made = _Maker(experiment, [os.path.abspath(p) for p in there])
    for path in ships:
        if not os.path.exists(path):
            raise BadInput(f"--ship {path}: there is no such file or folder")
        made.add(os.path.abspath(path), shipped=True)
    for path in made.declared_there:
        if not os.path.exists(path):
            raise BadInput(f"--there {path}: there is no such file or folder here, so that nothing can be checked")
        if os.path.isfile(path):
            made.check(path)
    for program in experiment.programs:
        made.directory(program.directory or os.getcwd())
        for variant in experiment.variants:
            if variant.directory:
                made.directory(variant.directory)
            for value in variant.values or (None,):
                made.start(program, variant, value)
    made.lab()
    made.refuse_too_much()
    return made.parcel


class _Maker:
    def __init__(self, experiment: Experiment, declared_there: list[str]):
        self.parcel = Parcel(experiment)
        self.declared_there = declared_there
        self._directories: dict[str, str] = {}
        self._sizes: dict[str, int] = {}

    def directory(self, path: str) -> None:
        """A program's working folder: the place of what is shipped from within it."""
        if path not in self._directories:
            place = self._directories[path] = f"work{len(self._directories) or ''}"
            self.parcel.manifest.append((place, None, 0o755))
            self.parcel.places[path] = place

    def start(self, program, variant, value) -> None:
        begin = variants.start_of(self.parcel.experiment, program, variant, value)
        directory = variant.directory or program.directory or os.getcwd()
        executable = begin.command[0]
        if "/" in executable:
            self.named(os.path.join(directory, executable), directory)
        else:
            self.check((variants.executable(begin) if begin.path else None) or executable)
        for word in (*begin.command[1:], *begin.environment.values(), *(w for v in (variant.settings, variant.environment) for w in v.values())):
            for part in (word, *re.split(r"[=:,]", word), word[2:] if word.startswith("-") else ""):
                if part and "\n" not in part and (os.path.isabs(part) or os.path.exists(os.path.join(directory, part))):
                    self.named(os.path.join(directory, part), directory)
        if begin.preload:
            self.named(begin.preload, directory)

    def named(self, path: str, directory: str) -> None:
        """Something that a command names: it travels, or must be there."""
        path = os.path.normpath(path)
        if not os.path.exists(path) or path.startswith(_NO_FILES) or path in ("/", directory) or directory.startswith(path + "/"):
            return
        if path.startswith(_INSTALLED) or any(path == p or path.startswith(p + "/") for p in self.declared_there):
            if os.path.isfile(path):
                self.check(path)
            return
        self.add(path)

    def check(self, name: str) -> None:
        path = name if "/" in name else shutil.which(name)
        if path and name not in self.parcel.there:
            self.parcel.there[name] = self.parcel.digests[name] = _digest(Path(path))

    def add(self, path: str, shipped: bool = False) -> None:
        if path in self.parcel.places and path not in self._directories:
            return
        place = self._place(path)
        if os.path.isdir(path):
            for folder, _, files in os.walk(path):
                for file in files:
                    whole = os.path.join(folder, file)
                    if os.path.isfile(whole):
                        self._file(whole, os.path.normpath(os.path.join(place, os.path.relpath(whole, path))))
        else:
            self._file(path, place)
        self.parcel.places.setdefault(path, place)

    def _place(self, path: str) -> str:
        for directory, place in self._directories.items():
            if path == directory or path.startswith(directory + "/"):
                return os.path.normpath(os.path.join(place, os.path.relpath(path, directory)))
        for program in self.parcel.experiment.programs:  # `ships` come before any program was looked at
            directory = program.directory or os.getcwd()
            if path == directory or path.startswith(directory + "/"):
                self.directory(directory)
                return self._place(path)
        return f"files/{hashlib.sha256(os.path.dirname(path).encode()).hexdigest()[:8]}/{os.path.basename(path)}"

    def _file(self, path: str, place: str) -> None:
        if any(entry[0] == place for entry in self.parcel.manifest[-1:]) or path in self.parcel.digests:
            return
        digest = _digest(Path(path))
        self.parcel.digests[path] = digest
        self.parcel.sources.setdefault(digest, Path(path))
        self.parcel.manifest.append((place, digest, os.stat(path).st_mode & 0o777))
        self._sizes[path] = os.path.getsize(path)

    def lab(self) -> None:
        """The lab itself and its two native programs, so that a machine needs neither the lab nor a compiler."""
        for folder in (Path(package.__file__).parent for package in (ashlar, ashlar_lab)):
            for file in sorted(folder.rglob("*")):
                if file.suffix in (".py", ".c") and "report" not in file.relative_to(folder).parts and "fit" not in file.relative_to(folder).parts:
                    self._made(f"lab/{folder.name}/{file.relative_to(folder)}", file.read_bytes(), 0o644)
        for source in (launcher.SOURCE, serve.SOURCE):
            built = native.program(source)
            if native.portable(built):
                self._made(f"lab/ashlar_programs/{os.uname().machine}/{source.stem}", built.read_bytes(), 0o755)

    def _made(self, place: str, content: bytes, mode: int) -> None:
        digest = hashlib.sha256(content).hexdigest()
        self.parcel.sources.setdefault(digest, content)
        self.parcel.manifest.append((place, digest, mode))

    def refuse_too_much(self) -> None:
        total = sum(self._sizes.values())
        if total > LARGEST_BYTES:
            largest = max(self._sizes, key=lambda p: self._sizes[p])
            raise BadInput(f"{total / 2**30:.1f} GiB would travel to every machine, the largest file being {largest}; put it on the machines and say "
                           f"--there {largest}, or ship less")


def _digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise BadInput(f"cannot read {path}, which the experiment names: {error.strerror}") from None
