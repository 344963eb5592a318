"""The Rust program that reads dumps: built at first use, kept under the hash of its source, started."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from ashlar.errors import BadInput
from ashlar.files import own_descriptor
from ashlar.memory.native import installed, kept
from ashlar.said import say

_CLONE = Path(__file__).resolve().parents[4]
_NAME = "ashlar-heap-graph"


def program() -> Path:
    """The executable that was installed with this program, or that of crates/heap-graph of this clone; ASHLAR_HEAP_GRAPH names another."""
    if chosen := os.environ.get("ASHLAR_HEAP_GRAPH"):
        return Path(chosen)
    if found := installed("heap-graph"):
        return found
    source = _CLONE / "crates" / "heap-graph"
    files = sorted([*source.glob("src/**/*.rs"), source / "Cargo.toml", _CLONE / "Cargo.lock"])
    if not (source / "Cargo.toml").exists():
        raise BadInput(f"{_NAME} was not installed with this ashlar; run ashlar from a clone of the project, or set ASHLAR_HEAP_GRAPH to the program")
    return kept("heap-graph", files, _build)


def _build(built: Path) -> None:
    cargo = shutil.which("cargo") or shutil.which("cargo", path=str(Path.home() / ".cargo" / "bin"))
    if not cargo:
        raise BadInput(f"cargo was not found, which builds {_NAME}; install Rust 1.85 or newer, or set ASHLAR_HEAP_GRAPH to the program")
    say(f"ashlar: building {_NAME}, once; this takes about a minute", error=True)
    target = built.parents[1] / "heap-graph-target"
    done = subprocess.run([cargo, "build", "--quiet", "--release", "--package", _NAME, "--target-dir", str(target)], cwd=_CLONE, capture_output=True, text=True)
    if done.returncode != 0:
        raise BadInput(f"{_NAME} cannot be built: {(done.stderr.strip().splitlines() or ['no message'])[0]}; see: cargo build --release --package {_NAME}")
    shutil.copy2(target / "release" / _NAME, built)


def analyse(file: str, subjects: Sequence[str] = (), blocks: bool = False) -> dict:
    """What the program tells of a dump; a subject is a class or the address of an object. A file that is a descriptor of this process is one of the
    program's as well."""
    own = own_descriptor(Path(file))
    asked = [part for subject in subjects for part in ("--why", subject)]
    done = subprocess.run([str(program()), file, *asked, *(["--map"] if blocks else [])], stdout=subprocess.PIPE,
                          pass_fds=() if own is None else (own,), stderr=None if sys.stderr.isatty() else subprocess.PIPE, text=True)
    if done.returncode == 2:
        if done.stderr is None:  # the program has told it on the terminal
            raise SystemExit(2)
        raise BadInput(done.stderr.strip().splitlines()[-1])
    if done.returncode != 0:
        raise BadInput(f"{file}: {_NAME} ended with status {done.returncode}, perhaps for want of memory; it takes about 60 bytes an object and 8 a reference")
    return json.loads(done.stdout)
