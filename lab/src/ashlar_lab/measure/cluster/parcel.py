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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import ashlar
import ashlar_lab
from ashlar.errors import BadInput
from ashlar.memory import launcher, native
from ashlar_lab import variants
from ashlar_lab.experiment.model import Experiment, Variant
from ashlar_lab.experiment.typed import in_every_string
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


def packed(experiment: Experiment, ships: Sequence[str] = (), there: Sequence[str] = ()) -> Parcel:
    """The parcel of an experiment. `ships` are further files and folders that travel, `there` are paths that do not."""
    for option, paths, why in (("--ship", ships, ""), ("--there", there, " here, so that nothing can be checked")):
        for path in paths:
            if not os.path.exists(path):
                raise BadInput(f"{option} {path}: there is no such file or folder{why}")
    travels, declared = set(map(os.path.abspath, ships)), list(map(os.path.abspath, there))
    needed = dict.fromkeys(declared)  # what must be there, by path or bare name
    folders = set()  # where programs run
    for arm in experiment.arms():
        program, variant = experiment.program(arm.program), experiment.variant(arm.variant)
        start = variants.start_of(program, variant, arm.value)
        folder = variant.directory or program.directory or os.getcwd()
        folders.add(folder)
        if "/" not in start.command[0]:
            needed[variants.executable(start)] = None
        for path in _named(start, variant, folder):
            if path.startswith(_INSTALLED) or any(f"{path}/".startswith(f"{p}/") for p in declared):
                needed[path] = None
            else:
                travels.add(path)
    found = {name: name if "/" in name else shutil.which(name) for name in needed}
    checked = {name: _digest(path) for name, path in found.items() if path and os.path.isfile(path)}
    files = sorted({file for path in travels for file in _files(path)})
    return Parcel(_placed(experiment, travels | folders), _archive(files, folders), checked, {**checked, **{file: _digest(file) for file in files}})


def _named(start: variants.Start, variant: Variant, folder: str) -> Iterator[str]:
    """The files and folders that one start names, as far as they are there: those travel, or must be there."""
    names = [start.command[0] if "/" in start.command[0] else "", start.preload or ""]
    for word in (*start.command[1:], *start.environment.values(), *variant.settings.values(), *variant.environment.values()):
        names += [part for part in (word, *re.split(r"[=:,]", word), word[2:] if word.startswith("-") else "") if "\n" not in part]
    for path in (os.path.normpath(os.path.join(folder, name)) for name in names if name):
        if os.path.exists(path) and not path.startswith(_NO_FILES) and path != "/" and not f"{folder}/".startswith(f"{path}/"):
            yield path


def _archive(files: list[str], folders: set[str]) -> bytes:
    """A tar of all that travels, and of the lab with its native programs, so that a machine needs neither it nor a compiler."""
    total = sum(map(os.path.getsize, files))
    if total > LARGEST_BYTES:
        largest = max(files, key=os.path.getsize)
        raise BadInput(f"{total / 2**30:.1f} GiB would travel to every machine, the largest file being {largest}; put it on the machines and say "
                       f"--there {largest}, or ship less")
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz", compresslevel=1, dereference=True) as tar:
        for folder in sorted(folders):
            tar.add(folder, f"files{folder}", recursive=False)
        for file in files:
            tar.add(file, f"files{file}")
        for package in (ashlar, ashlar_lab):
            tar.add(Path(package.__file__).parent, f"lab/{package.__name__}", filter=lambda member: None if member.name.endswith("__pycache__") else member)
        for source in (launcher.SOURCE, serve.SOURCE):
            if native.portable(built := native.program(source)):
                tar.add(built, f"lab/ashlar_programs/{os.uname().machine}/{source.stem}")
    return content.getvalue()


def _placed(experiment: Experiment, paths: set[str]) -> dict:
    """The experiment with `ROOT` before each of these paths, where it names them."""
    known = "|".join(re.escape(p) for p in sorted(paths - {"/"}, key=len, reverse=True)) or "(?!)"
    found = re.compile(rf"(^-[A-Za-z]|(?<![\w.-]))({known})(?![\w.-])")

    def put(one: dict) -> dict:
        return {**in_every_string(lambda text: found.sub(lambda m: f"{m[1]}{ROOT}/files{m[2]}", text), one), "name": one["name"]}

    raw = json.loads(experiment.to_json())
    programs = [{**put(p), "directory": f"{ROOT}/files{p['directory'] or os.getcwd()}"} for p in raw["programs"]]
    return {**raw, "programs": programs, "variants": list(map(put, raw["variants"]))}


def _files(path: str) -> Iterator[str]:
    """The plain files of a folder, or the file itself."""
    if not os.path.isdir(path):
        yield path
    for folder, _, names in os.walk(path):
        yield from (whole for name in names if os.path.isfile(whole := os.path.join(folder, name)))


def _digest(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise BadInput(f"cannot read {path}, which the experiment names: {error.strerror}") from None
