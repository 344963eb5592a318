"""What travels to the workers of a cluster, and what must be there already, checked by content hash.

Files and folders that a command, a setting or an environment value names by path travel, and so do preloaded libraries. They lie
below a folder of the comparison's own under the paths they have here, so that relative names stay right; absolute ones are put
right by the agent, which knows the folder. What is installed (under /usr and the like), what a command names without a path (`ruby`),
and what the user says is there, must be there with the same content. What nobody names has to be added: `--ship PATH`.
"""

import hashlib
import io
import json
import os
import re
import shutil
import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import ashlar
import ashlar_lab
from ashlar.errors import BadInput
from ashlar.memory import launcher, native
from ashlar_lab import variants
from ashlar_lab.experiment.model import Experiment
from ashlar_lab.measure import serve

# Stands for the folder of the comparison, which has another path in every worker.
ROOT = "\0root\0"
_INSTALLED = ("/usr/", "/bin/", "/sbin/", "/lib/", "/lib64/", "/etc/", "/nix/", "/snap/", "/opt/")
_NO_FILES = ("/proc/", "/sys/", "/dev/", "/run/")
# More than this is not sent: Dask sends it in one message, and it is probably a mistake.
LARGEST_BYTES = 1 << 30


@dataclass(frozen=True)
class Parcel:
    """`experiment` is that of Experiment.to_json, with `ROOT` before the paths that travel. `archive` is a tar of `files`, with those
    paths, and `lab`. `there` has the SHA-256 of what must be there already, by path or bare name, and `digests` that of every file."""

    experiment: dict
    archive: bytes
    there: dict[str, str]
    digests: dict[str, str]


def packed(experiment: Experiment, ships: Iterable[str] = (), there: Iterable[str] = ()) -> Parcel:
    """The parcel of an experiment. `ships` are further files and folders that travel, `there` are paths that do not."""
    made = _Maker([os.path.abspath(p) for p in there])
    for path in ships:
        if not os.path.exists(path):
            raise BadInput(f"--ship {path}: there is no such file or folder")
        made.travels.add(os.path.abspath(path))
    for path in made.declared_there:
        if not os.path.exists(path):
            raise BadInput(f"--there {path}: there is no such file or folder here, so that nothing can be checked")
        made.check(path)
    for program in experiment.programs:
        for variant in experiment.variants:
            for value in variant.values or (None,):
                made.start(experiment, program, variant, value)
    return Parcel(_placed(experiment, made.travels | made.folders), made.archive(), made.there, made.digests)


class _Maker:
    def __init__(self, declared_there: list[str]):
        self.declared_there = declared_there
        self.travels: set[str] = set()
        self.folders: set[str] = set()  # where programs run
        self.there: dict[str, str] = {}
        self.digests: dict[str, str] = {}

    def start(self, experiment: Experiment, program, variant, value) -> None:
        """Everything that one start names."""
        begin = variants.start_of(experiment, program, variant, value)
        folder = variant.directory or program.directory or os.getcwd()
        self.folders.add(folder)
        executable = begin.command[0]
        if "/" in executable:
            self.named(executable, folder)
        else:
            self.check((variants.executable(begin) if begin.path else None) or executable)
        for word in (*begin.command[1:], *begin.environment.values(), *variant.settings.values(), *variant.environment.values()):
            for part in (word, *re.split(r"[=:,]", word), word[2:] if word.startswith("-") else ""):
                if part and "\n" not in part:
                    self.named(part, folder)
        if begin.preload:
            self.named(begin.preload, folder)

    def named(self, name: str, folder: str) -> None:
        """Something that a command may name: where there is such a file or folder it travels, or must be there."""
        path = os.path.normpath(os.path.join(folder, name))
        if not os.path.exists(path) or path.startswith(_NO_FILES) or path == "/" or f"{folder}/".startswith(f"{path}/"):
            return
        if path.startswith(_INSTALLED) or any(f"{path}/".startswith(f"{p}/") for p in self.declared_there):
            self.check(path)
        else:
            self.travels.add(path)

    def check(self, name: str) -> None:
        path = name if "/" in name else shutil.which(name)
        if path and os.path.isfile(path):
            self.there[name] = self.digests[name] = _digest(path)

    def archive(self) -> bytes:
        """A tar of all that travels, and of the lab with its native programs, so that a machine needs neither it nor a compiler."""
        files = sorted({file for path in self.travels for file in _files(path)})
        total = sum(map(os.path.getsize, files))
        if total > LARGEST_BYTES:
            largest = max(files, key=os.path.getsize)
            raise BadInput(f"{total / 2**30:.1f} GiB would travel to every machine, the largest file being {largest}; put it on the machines and say "
                           f"--there {largest}, or ship less")
        self.digests |= {file: _digest(file) for file in files}
        content = io.BytesIO()
        with tarfile.open(fileobj=content, mode="w:gz", compresslevel=1, dereference=True) as tar:
            for folder in sorted(self.folders):
                tar.add(folder, f"files{folder}", recursive=False)
            for file in files:
                tar.add(file, f"files{file}")
            for file, place in _lab():
                tar.add(file, f"lab/{place}")
        return content.getvalue()


def _placed(experiment: Experiment, paths: set[str]) -> dict:
    """The experiment with `ROOT` before each of these paths, where it names them."""
    known = "|".join(re.escape(p) for p in sorted(paths - {"/"}, key=len, reverse=True)) or "(?!)"
    found = re.compile(rf"(^-[A-Za-z]|(?<![\w.-]))({known})(?![\w.-])")

    def put(value):
        if isinstance(value, str):
            return found.sub(lambda m: f"{m[1]}{ROOT}/files{m[2]}", value)
        if isinstance(value, list):
            return [put(v) for v in value]
        return {k: v if k == "name" else put(v) for k, v in value.items()} if isinstance(value, dict) else value

    raw = json.loads(experiment.to_json())
    programs = [{**put(p), "directory": f"{ROOT}/files{p['directory'] or os.getcwd()}"} for p in raw["programs"]]
    return {**raw, "programs": programs, "variants": put(raw["variants"])}


def _files(path: str) -> Iterator[str]:
    """The plain files of a folder, or the file itself."""
    if not os.path.isdir(path):
        yield path
    for folder, _, names in os.walk(path):
        yield from (whole for name in names if os.path.isfile(whole := os.path.join(folder, name)))


def _lab() -> Iterator[tuple[Path, str]]:
    for folder in (Path(package.__file__).parent for package in (ashlar, ashlar_lab)):
        for file in sorted(folder.rglob("*")):
            if file.suffix in (".py", ".c"):
                yield file, f"{folder.name}/{file.relative_to(folder)}"
    for source in (launcher.SOURCE, serve.SOURCE):
        if native.portable(built := native.program(source)):
            yield built, f"ashlar_programs/{os.uname().machine}/{source.stem}"


def _digest(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise BadInput(f"cannot read {path}, which the experiment names: {error.strerror}") from None
