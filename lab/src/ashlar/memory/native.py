"""Small C programs, built at first use and kept under the hash of their source."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from ashlar.errors import BadInput

_PROGRAMS = Path(__file__).parents[2] / "ashlar_programs" / os.uname().machine


def installed(name: str) -> Path | None:
    """A program that came with this package: installed, or sent from another machine."""
    return _PROGRAMS / name if (_PROGRAMS / name).exists() else None


def cache_directory() -> Path:
    """Where built things live: ASHLAR_CACHE, else the user's cache."""
    chosen = os.environ.get("ASHLAR_CACHE")
    return Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ashlar"


def program(source: Path) -> Path:
    """The executable of a source file."""
    if found := installed(source.stem):
        return found
    path = cache_directory() / "lab" / f"{source.stem}-{hashlib.sha256(source.read_bytes()).hexdigest()[:16]}"
    if not path.exists():
        _build(source, path)
    return path


def portable(path: Path) -> bool:
    """Whether a built program runs on any machine of this architecture: a static image asks for no interpreter."""
    image = path.read_bytes()
    if image[:5] != b"\x7fELF\x02":
        return False
    at, size, count = int.from_bytes(image[32:40], "little"), int.from_bytes(image[54:56], "little"), int.from_bytes(image[56:58], "little")
    return all(int.from_bytes(image[at + i * size:at + i * size + 4], "little") != 3 for i in range(count))


def _build(source: Path, path: Path) -> None:
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if not compiler:
        raise BadInput(f"no C compiler found for {source.name}; apt-get install gcc libc6-dev, or set CC")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
            built = Path(scratch) / source.stem
            # A static image has the lowest memory floor; where no static libc is installed a dynamic one does.
            for extra in (["-static"], []):
                tried = subprocess.run([*compiler.split(), "-O2", *extra, "-o", str(built), str(source)], capture_output=True, text=True)
                if tried.returncode == 0:
                    built.replace(path)
                    return
    except OSError as error:
        raise BadInput(f"cannot build {source.name} in {path.parent}: {error}; set ASHLAR_CACHE to a writable folder") from None
    raise BadInput(f"{source.name} does not compile with {compiler}: {(tried.stderr.strip().splitlines() or ['no message'])[-1]}")
