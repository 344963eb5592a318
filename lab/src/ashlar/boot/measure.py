"""Running a command with every Ruby in it telling what it loads."""

import json
import os
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

from ashlar.errors import BadInput
from ashlar.files import scratch


@dataclass(frozen=True)
class LoadedFile:
    """One file. Its own share leaves out what the files that it loads take."""

    path: str
    order: int
    own_ns: int
    total_ns: int
    own_objects: int
    total_objects: int
    own_collecting_ns: int
    depth: int


@dataclass(frozen=True)
class Compiling:
    """What the compiler, or the loading of compiled code, came to."""

    files: int
    ns: int
    objects: int


@dataclass(frozen=True)
class Boot:
    """One Ruby process, from its beginning until its end, or until it called `Process.warmup`.

    Files are counted from where the options of the command line have been done, those that load something among them. `kept_objects` are those that a full collection at the end finds alive, those of Ruby's own start among them.
    `code_cache` is what Ashlar's code cache counted, as `Ashlar::CodeCache.stat` names it; `None` without one.
    """

    why: str
    process: int
    command: list[str]
    ruby: str
    collector: str
    wall_ns: int
    cpu_ns: int
    collecting_ns: int
    objects: int
    kept_objects: int
    collections: int
    full_collections: int
    rss_kib: int
    compiled: Compiling
    from_binary: Compiling
    files: list[LoadedFile]
    code_cache: dict[str, int] | None = None

    @property
    def collecting_share(self) -> float:
        """The collector's share of the CPU time."""
        return self.collecting_ns / self.cpu_ns if self.cpu_ns else 0.0


def measure(command: list[str]) -> tuple[list[Boot], int]:
    """Runs `command` in the foreground; what each Ruby process in it told, in the order of their numbers, and the exit status."""
    with scratch("ashlar-boot-") as folder:
        report = folder / "boot"
        options = " ".join(filter(None, [f"-r{_without_blanks(Path(__file__).absolute().parent, folder)}/boot.rb", os.environ.get("RUBYOPT")]))
        environment = {**os.environ, "RUBYOPT": options, "ASHLAR_BOOT_REPORT": str(report)}
        status = _run(command, environment)
        boots = [read(found) for found in sorted(folder.glob("boot.*"))]
    if not boots:
        raise BadInput(f"no Ruby told what it loads: {command[0]!r} ended with status {status}; "
                       "it must start Ruby 3.1 or newer, let it inherit RUBYOPT, and not end by SIGKILL or exit!")
    return sorted(boots, key=lambda boot: boot.process), status


def _without_blanks(place: Path, scratch_folder: Path) -> Path:
    """RUBYOPT is cut at blanks. Another name for each run would only make a code cache compile anew what it has."""
    if not any(c.isspace() for c in str(place)):
        return place
    link = scratch_folder / "boot-files"
    link.symlink_to(place)
    return link


def read(report: Path) -> Boot:
    """A report as boot.rb writes it."""
    told = json.loads(report.read_bytes())
    told["compiled"], told["from_binary"] = Compiling(**told["compiled"]), Compiling(**told["from_binary"])
    told["files"] = [LoadedFile(**file) for file in told["files"]]
    return Boot(**told)


def _run(command: list[str], environment: dict[str, str]) -> int:
    previous = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal's Ctrl-C is for the command
    try:
        process = subprocess.Popen(command, env=environment, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        signal.signal(signal.SIGTERM, lambda number, _: process.send_signal(number))  # then Ruby ends, and tells what it loaded
        status = process.wait()
    except OSError as error:
        raise BadInput(f"cannot run {command[0]!r}: {error.strerror}; check the path, or PATH") from None
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
    return status if status >= 0 else 128 - status
