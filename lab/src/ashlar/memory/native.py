"""Small native programs, built at first use and kept under the hash of their source."""

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable
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


def kept(name: str, sources: Iterable[Path], build: Callable[[Path], None]) -> Path:
    """The program that `build` makes at the path that it is given. It is kept under a name that changes with the sources."""
    path = cache_directory() / "lab" / f"{name}-{hashlib.sha256(b''.join(file.read_bytes() for file in sources)).hexdigest()[:16]}"
    if not path.exists():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
                build(built := Path(scratch) / name)
                built.replace(path)
        except OSError as error:
            raise BadInput(f"cannot build {name} in {path.parent}: {error.strerror}; set ASHLAR_CACHE to a writable folder") from None
    return path


def program(source: Path) -> Path:
    """The executable of a C source file."""
    return installed(source.stem) or kept(source.stem, [source], lambda built: _build(source, built))


def portable(path: Path) -> bool:
    """Whether a built program runs on any machine of this architecture: a static image asks for no interpreter."""
    image = path.read_bytes()
    if image[:5] != b"\x7fELF\x02":
        return False
    at, size, count = int.from_bytes(image[32:40], "little"), int.from_bytes(image[54:56], "little"), int.from_bytes(image[56:58], "little")
    return all(int.from_bytes(image[at + i * size:at + i * size + 4], "little") != 3 for i in range(count))


def _build(source: Path, built: Path) -> None:
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if not compiler:
        raise BadInput(f"no C compiler found for {source.name}; apt-get install gcc libc6-dev, or set CC")
    # A static image has the lowest memory floor; where no static libc is installed a dynamic one does.
    for extra in (["-static"], []):
        tried = subprocess.run([*compiler.split(), "-O2", *extra, "-o", str(built), str(source)], capture_output=True, text=True)
        if tried.returncode == 0:
            return
    raise BadInput(f"{source.name} does not compile with {compiler}: {(tried.stderr.strip().splitlines() or ['no message'])[-1]}")
