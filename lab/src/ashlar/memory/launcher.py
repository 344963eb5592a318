"""Start the native launcher and read what it wrote."""

import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from ashlar.memory import native

SOURCE = Path(__file__).with_name("launcher.c")
# The share of one core that each kind of sampling may take.
DUTY_PERMILLE = 4


@dataclass
class Observed:
    """What the launcher saw of one command and its descendants. Times are from the start of the command."""

    numbers: dict[str, float] = field(default_factory=dict)
    samples: list[tuple[int, int, int]] = field(default_factory=list)  # (microseconds, RSS KiB of the tree, processes)
    pss: list[tuple[int, int, int, int, int]] = field(default_factory=list)  # (microseconds, PSS, private, RSS, swap KiB)
    counters: dict[str, float] = field(default_factory=dict)
    missing_counters: dict[str, str] = field(default_factory=dict)
    memory: list[dict] = field(default_factory=list)  # snapshots of single processes, by moment
    mapped: str | None = None
    timed_out: bool = False
    exec_failed: str | None = None
    traced: bool = True
    complete: bool = False


_MEMORY = ("size_kib", "rss_kib", "pss_kib", "private_kib", "swap_kib", "hwm_kib")
_MOMENTS = ("peak", "at_exit", "process_exit", "mark")


def read_observed(path: Path) -> Observed:
    """Parse the launcher's lines. Only a new line ends one, and only a blank a word: names of processes and files may have other letters that Python
    takes for these."""
    seen = Observed()
    for line in filter(None, path.read_bytes().decode(errors="replace").split("\n")):
        key, _, rest = line.partition(" ")
        if key == "sample":
            seen.samples.append(tuple(map(int, rest.split())))
        elif key == "pss":
            seen.pss.append(tuple(map(int, rest.split())))
        elif key == "counter":
            name, value = rest.split()
            seen.counters[name] = float(value)
        elif key == "no_counter":
            name, _, why = rest.partition(" ")
            seen.missing_counters[name] = why
        elif key in _MOMENTS:
            at, pid, name, *sizes = rest.split(" ")
            seen.memory.append({"moment": key, "at_us": int(at), "pid": int(pid), "name": name, **dict(zip(_MEMORY, map(int, sizes)))})
        elif key == "mapped":
            seen.mapped = rest.partition(" ")[2]
        elif key == "timeout":
            seen.timed_out = True
        elif key == "exec_failed":
            seen.exec_failed = rest
        elif key == "no_trace":
            seen.traced = False
        elif key == "end":
            seen.complete = True
        elif key in ("stopped", "killed"):
            pass
        else:
            seen.numbers[key] = float(rest)
    return seen


def start(command: tuple[str, ...], *, result: Path, environment: dict[str, str], output: Path | None = None,
          errors: Path | None = None, directory: str | None = None, preload: str | None = None, library: str | None = None,
          cgroup: str | None = None, period_us: int = 50000, duty_permille: int = DUTY_PERMILLE, timeout_s: float = 0, grace_s: float = 0.5,
          trace: bool = False, counters: bool = True, foreground: bool = False, turns_fd: int | None = None) -> subprocess.Popen:
    """Start the launcher around `command`; the caller waits for it and reads `result`. With `turns_fd` the command takes turns with others:
    a byte is written there when the launcher knows its signals, and whenever the command stands still after SIGUSR2; after SIGCONT it goes on."""
    options: list[str] = ["--result", str(result), "--period-us", str(period_us), "--duty-permille", str(duty_permille),
                          "--timeout-ms", str(int(timeout_s * 1000)), "--grace-ms", str(int(grace_s * 1000))]
    for name, value in (("--output", output), ("--errors", errors), ("--directory", directory), ("--preload", preload),
                        ("--library", library), ("--cgroup", cgroup), ("--turns-fd", turns_fd)):
        if value is not None:
            options += [name, str(value)]
    options += ["--trace"] if trace else []
    options += ["--counters"] if counters else []
    options += ["--foreground"] if foreground else []
    return subprocess.Popen([str(native.program(SOURCE)), *options, "--", *command], env=environment,
                            stdin=None if foreground else subprocess.DEVNULL, start_new_session=not foreground,
                            pass_fds=() if turns_fd is None else (turns_fd,))
