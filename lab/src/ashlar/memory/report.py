"""What `ashlar mem` does: memory of a command's process tree at its exit and at its peak, without the command's help.

The launcher traces the tree and stops each process at the moment it exits, when its memory is still mapped; the
peak is looked for while it runs.
"""

import json
import os
import signal
import tempfile
from collections import defaultdict
from pathlib import Path

from ashlar.errors import BadInput
from ashlar.memory import launcher
from ashlar.said import one_line, say

_COLUMNS = {"Size": "size_kib", "RSS": "rss_kib", "PSS": "pss_kib", "Private": "private_kib", "Swap": "swap_kib"}


def run(asked) -> int:
    found = measure(asked.command)
    say(json.dumps(found, indent=1) if asked.json else text(found), error=not asked.json)
    return found["status"]


def measure(command: list[str], sample_hz: float = 500.0) -> dict:
    """Run `command` in the foreground and read its memory from smaps: of the tree when the command ended, of the tree at its largest, and of those that
    ended before. Of each process there are its number, its name and its memory in KiB, `hwm_kib` being the kernel's high-water mark of its RSS until
    then. Nothing is timed, so the peak may be looked for often."""
    with tempfile.TemporaryDirectory(prefix="ashlar-lab-") as scratch:
        result = Path(scratch) / "observed"
        process = launcher.start(tuple(command), result=result, environment=dict(os.environ), period_us=int(1e6 / sample_hz),
                                 duty_permille=100, trace=True, counters=False, foreground=True)
        previous = signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal's Ctrl-C is for the command
        try:
            process.wait()
        finally:
            signal.signal(signal.SIGINT, previous)
        if process.returncode or not result.exists():
            raise BadInput(f"the launcher could not start {command[0]!r}: exit {process.returncode}")
        seen = launcher.read_observed(result)
    if seen.exec_failed:
        raise BadInput(f"cannot run {command[0]!r}: {seen.exec_failed}; check the path, or PATH")
    moments = defaultdict(list)
    for one in seen.memory:
        moments[one.pop("moment"), one.pop("at_us")].append(one)
    largest = max((m for m in moments if m[0] in ("peak", "at_exit")), key=lambda m: _total(moments[m], "rss_kib"), default=None)
    return {
        "at_exit": next((found for (moment, _), found in moments.items() if moment == "at_exit"), []),
        "at_peak": moments[largest] if largest else [],
        "peak_at_s": largest[1] / 1e6 if largest else None,
        "ended_before": [one for (moment, _), found in moments.items() if moment == "process_exit" for one in found],
        "wall_s": seen.numbers.get("wall_ns", 0) / 1e9,
        "status": int(seen.numbers.get("exit", 128 + seen.numbers.get("signal", 0))),
        "traced": seen.traced,
    }


def _total(processes: list[dict], column: str) -> int:
    """The sum over processes; sums of RSS count shared pages once per process, sums of PSS do not."""
    return sum(one[column] for one in processes)


def text(memory: dict) -> str:
    """Plain text, in KiB, one line per process and a total where there are several."""
    lines = [f"{'memory in KiB':28}" + "".join(f"{h:>12}" for h in _COLUMNS)]
    if memory["at_exit"]:
        lines += _section("at exit", memory["at_exit"])
    else:
        lines.append("at exit: not read; the command was ended by a signal it could not outlive" if memory["traced"]
                     else "at exit: not read; this system forbids tracing (ptrace)")
    if memory["at_peak"]:
        lines += _section(f"at peak ({memory['peak_at_s']:.2f} s of {memory['wall_s']:.2f} s)", memory["at_peak"])
    if len(memory["at_exit"]) == 1:
        lines.append(f"the kernel's high-water mark of RSS: {memory['at_exit'][0]['hwm_kib']:,} KiB")
    if ended := memory["ended_before"]:
        largest = max(ended, key=lambda one: one["hwm_kib"])
        lines.append(f"{len(ended)} other process{'es' if len(ended) != 1 else ''} ended before; "
                     f"the largest was {one_line(largest['name'])} with {largest['hwm_kib']:,} KiB at its peak")
    return "\n".join(lines)


def _section(title: str, processes: list[dict]) -> list[str]:
    lines = [title]
    for one in processes:
        name = f"  {one_line(one['name'])} ({one['pid']})"
        lines.append(f"{name:28}" + "".join(f"{one[column]:>12,}" for column in _COLUMNS.values()))
    if len(processes) > 1:
        lines.append(f"{'  total':28}" + "".join(f"{_total(processes, column):>12,}" for column in _COLUMNS.values()))
    return lines
