"""Put finished files in place: written whole beside their name, then renamed. And a place for those that are never finished."""

import contextlib
import errno
import os
import re
import secrets
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ashlar.errors import BadInput


def file_name(text: str, otherwise: str) -> str:
    """A name that any file system takes and no shell asks about."""
    return "".join(c if c.isalnum() or c in "-_." else "-" for c in text).strip("-.") or otherwise


@contextlib.contextmanager
def scratch(prefix: str) -> Iterator[Path]:
    """A folder that is gone afterwards. Ruby cuts RUBYOPT at blanks, so there is none in its name."""
    place = "/tmp" if any(c.isspace() for c in tempfile.gettempdir()) else None
    with tempfile.TemporaryDirectory(prefix=prefix, dir=place) as folder:
        yield Path(folder)


def check_can_write(base: Path) -> None:
    """Raise BadInput before anything is done if files could not be written beside `base` afterwards."""
    folder = base.absolute().parent
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        why = "it cannot be written to" if folder.is_dir() else "there is no such folder"
        raise BadInput(f"cannot write reports into {folder}: {why}; name a writable place with --output")


def put(path: Path, content: str | bytes | Iterator[str], private: bool = False, named: str = "", option: str = "--output") -> Path:
    """In place of a file at once; into a device, a pipe or a descriptor of this process as it is. What is private, because it tells of a program's heap, only this
    user may read. A link that stands at `path` is replaced, not followed. A complaint calls the file `named`, and names the `option` that chose it."""
    device = is_device(path)
    partial = path
    try:
        if device:
            descriptor = _open_device(path)
        else:
            partial, descriptor = begin_beside(path, 0o600 if private else 0o666)
        with open(descriptor, "wb") as file:
            for piece in (content,) if isinstance(content, (str, bytes)) else content:
                file.write(piece.encode(errors="backslashreplace") if isinstance(piece, str) else piece)
        if not device:
            os.replace(partial, path)
    except BaseException as error:
        if partial != path:
            partial.unlink(missing_ok=True)
        if not isinstance(error, OSError):
            raise
        raise BadInput(f"cannot write {named or path}: {error.strerror}; name a writable place with {option}") from None
    return path


def begin_beside(path: Path, mode: int) -> tuple[Path, int]:
    """A new file beside `path` under a name that nobody can guess, and so has not put anything at; the umask takes from `mode`."""
    if not path.name:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    partial = path.with_name(f".ashlar-{secrets.token_hex(16)}.part")
    return partial, os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)


def _open_device(path: Path) -> int:
    """In a folder of all users another one may have put something else there since `is_device` was asked. A descriptor is this process's own."""
    if (own := own_descriptor(path)) is not None:
        sys.stdout.flush()
        return os.dup(own)
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    found = os.fstat(descriptor)
    refused = ("it is a file by now" if stat.S_ISREG(found.st_mode)
               else "it is a pipe of another user's" if stat.S_ISFIFO(found.st_mode) and found.st_uid not in (0, os.geteuid()) else "")
    if refused:
        os.close(descriptor)
        raise PermissionError(errno.EPERM, refused)
    return descriptor


def is_device(path: Path) -> bool:
    """Whether something stands there that is neither a file nor a folder, or a link of the system's to a descriptor, which may be a file's."""
    if own_descriptor(path) is not None:
        return True
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


_OWN_DESCRIPTOR = re.compile(r"/(?:dev|proc/self)/fd/([0-9]{1,9})")


def own_descriptor(path: Path) -> int | None:
    """The descriptor of this process that a path names."""
    found = _OWN_DESCRIPTOR.fullmatch(str(path))
    return int(found[1]) if found else {"/dev/stdin": 0, "/dev/stdout": 1, "/dev/stderr": 2}.get(str(path))


def to_standard_output(content: str | bytes) -> None:
    """As it is, after what was printed before."""
    sys.stdout.flush()
    sys.stdout.buffer.write(content.encode(errors="backslashreplace") if isinstance(content, str) else content)
    sys.stdout.buffer.flush()
