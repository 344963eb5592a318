"""Other memory for the files of a program, before each run.

The system keeps the pages of an executable file in memory, and where they lie decides how fast the program runs. Left alone they stay from run to run, so
that all blocks have the same good or bad luck, and no interval shows it (docs/notes/lab-statistics.md, "What blocks do not show").
"""

import contextlib
import fcntl
import io
import mmap
import os
import random
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

# So much memory, at most, is taken while the pages are read again. Without it the system would often give the same ones.
_ASIDE_MAX_BYTES = 128 << 20
_READ_BYTES = 1 << 20


def programs(command: Sequence[str], search: str, directory: str | None) -> list[Path]:
    """The compiled programs that a command names: its first word, looked for in `search` as a shell does, and others that are their path, such as the
    interpreter that a script is told to start."""
    first = shutil.which(command[0], path=search) if "/" not in command[0] else None
    named = [*([Path(first)] if first else []), *(Path(directory or ".") / word for word in command if "/" in word)]
    return list(dict.fromkeys(path.resolve() for path in named if _is_compiled(path)))


@contextlib.contextmanager
def renewed(files: Iterable[Path], chance: random.Random) -> Iterator[None]:
    """The files of a run that lasts as long as the context. Their pages are dropped and read again into others, unless a run of this machine that goes on uses the
    file: it would wait for the disk in the middle. A file in memory (tmpfs), and what a process outside the lab runs just now, keep their pages."""
    with contextlib.ExitStack() as held:
        for path in files:
            with contextlib.suppress(OSError):
                file = held.enter_context(path.open("rb", buffering=0))
                try:
                    if _is_alone(file):
                        _renew(file, chance)
                finally:  # whatever went wrong: a run that takes turns with this one could not begin while this one holds the file alone
                    fcntl.flock(file, fcntl.LOCK_SH)
        yield


def _is_alone(file: io.FileIO) -> bool:
    """Whether no other run holds the file. If so, one that begins now waits."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _renew(file: io.FileIO, chance: random.Random) -> None:
    os.fsync(file.fileno())  # pages that are not written out yet stay
    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    with mmap.mmap(-1, chance.randrange(_ASIDE_MAX_BYTES) + 1, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE):
        while file.read(_READ_BYTES):
            pass


def _is_compiled(path: Path) -> bool:
    with contextlib.suppress(OSError, ValueError):
        if path.is_file():
            with path.open("rb") as file:
                return file.read(4) == b"\x7fELF"
    return False
