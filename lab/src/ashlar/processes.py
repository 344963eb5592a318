"""Processes from outside, as /proc tells of them. What has ended meanwhile raises OSError, or is None where that is said."""

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeVar

from ashlar.errors import BadInput

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
Told = TypeVar("Told")


class Stat(NamedTuple):
    """What /proc/PID/stat says. `children_s` is the CPU time of the children that it has waited for; `started` counts ticks since the machine's start."""

    name: str
    state: str
    parent: int
    cpu_s: float
    children_s: float
    started: int


def stat_of(text: str) -> Stat:
    """The name may hold anything, so that the fields are those behind its last parenthesis."""
    name, _, rest = text.partition("(")[2].rpartition(")")
    fields = rest.split()
    user, system, children_user, children_system = map(int, fields[11:15])
    return Stat(name, fields[0], int(fields[1]), (user + system) / TICKS_PER_S, (children_user + children_system) / TICKS_PER_S, int(fields[19]))


def stat(pid: int) -> Stat | None:
    """None for a process that is gone, or that has ended and only waits to be asked after."""
    text = told("", _file, pid, "stat")
    return found if text and (found := stat_of(text)).state not in "ZX" else None


def status(pid: int) -> dict[str, str]:
    """The fields of /proc/PID/status."""
    return {name: value.strip() for name, _, value in (line.partition(":") for line in _file(pid, "status").splitlines())}


def kib(fields: dict[str, str], name: str) -> int:
    """A field of `status` that is an amount of memory, in bytes; 0 where the process has none."""
    return int(fields.get(name, "0 kB").split()[0]) * 1024


def rollup(pid: int) -> dict[str, int]:
    """What /proc/PID/smaps_rollup says: the kernel's own sums, in bytes, by name."""
    fields = (line.partition(":") for line in _file(pid, "smaps_rollup").splitlines()[1:])
    return {name: int(rest.split()[0]) * 1024 for name, _, rest in fields}


def name_of(pid: int) -> str:
    return told("gone", _file, pid, "comm").strip()


def told(otherwise: Told, read: Callable[..., Told], *of) -> Told:
    """What `read` tells, or `otherwise` where the process has ended meanwhile or may not be read."""
    try:
        return read(*of)
    except OSError:
        return otherwise


def numbers() -> Iterator[int]:
    """Of all processes that there are."""
    return (int(name) for name in os.listdir("/proc") if name.isdigit())


def descendants(pid: int) -> Iterator[tuple[int, int]]:
    """All processes that this one has started, and those that they have, each with its parent and after it. Ended ones that nobody has asked after are
    among them."""
    waiting = [pid]
    for parent in waiting:
        for child in _children(parent):
            waiting.append(child)
            yield child, parent


def _children(pid: int) -> list[int]:
    found = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            found += map(int, _file(pid, f"task/{thread}/children").split())
    except OSError:
        if not os.path.exists(f"/proc/{os.getpid()}/task/{os.getpid()}/children"):  # kernels that do not list the children of a process
            return [number for number in numbers() if (told := stat(number)) and told.parent == pid]
    return sorted(found)


@contextlib.contextmanager
def reading(pid: int, what: str, *, gone: str, refused: str) -> Iterator[None]:
    """What goes wrong when a process is read becomes one line: `what` may not be read, and what to do about that, and about a process that is gone. Some
    systems lack files of processes that are there."""
    try:
        yield
    except PermissionError:
        raise BadInput(f"not allowed to read {what} {pid} ({name_of(pid)}); {refused}") from None
    except (FileNotFoundError, ProcessLookupError) as error:
        if isinstance(error, FileNotFoundError) and stat(pid):
            raise BadInput(f"cannot read {what} {pid} ({name_of(pid)}): this system has no {error.filename}, which Linux has from 4.14 on") from None
        raise BadInput(f"there is no process {pid}; {gone}") from None


def _file(pid: int, name: str) -> str:
    return Path(f"/proc/{pid}/{name}").read_text(errors="replace")
