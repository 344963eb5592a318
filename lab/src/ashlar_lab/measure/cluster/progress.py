"""The progress of several machines: blocks done, time left, and what each machine runs now."""

from __future__ import annotations

import sys
import time
from collections import defaultdict

from rich.progress import BarColumn, Progress as Bar, TimeElapsedColumn

from ashlar_lab.console import Column, Terminal
from ashlar_lab.experiment.model import Experiment
from ashlar_lab.measure.progress import clock
from ashlar_lab.store.run import OK, Run

_ROWS = 8


class FleetProgress:
    """Shown on standard error when that is a terminal; in a pipe only who joins, who leaves, and failures."""

    def __init__(self, experiment: Experiment, quiet: bool = False):
        self._experiment, self._quiet = experiment, quiet
        self._console = Terminal(stderr=True)
        self._total = experiment.stop.blocks_max * len(experiment.arms())
        self._bar = Bar(Column("{task.fields[stage]}"), BarColumn(), Column("{task.percentage:>3.0f} %"), TimeElapsedColumn(),
                        Column("{task.fields[left]}"), Column("{task.fields[now]}", "dim"), console=self._console,
                        disable=quiet or not sys.stderr.isatty(), transient=True)
        self._task = self._bar.add_task("", total=None, stage="connecting", left="", now="")
        self._machines: dict[str, str] = {}
        self._runs: dict[int, int] = defaultdict(int)
        self._first: float | None = None
        self._since = 0

    def __enter__(self) -> "FleetProgress":
        self._bar.start()
        return self

    def __exit__(self, *_) -> None:
        self._bar.stop()

    def says(self, text: str) -> None:
        if not self._quiet:
            self._console.print(text, soft_wrap=True)

    def sends(self, done: int, total: int) -> None:
        self._bar.update(self._task, stage=f"sending file {done} of {total}")

    def joined(self, machine: str) -> None:
        self._machines.setdefault(machine, "joined")
        self.says(f"{machine} takes part")
        self._refresh()

    def gone(self, machine: str, more: str = "") -> None:
        self._machines.pop(machine, None)
        self.says(f"{machine} is gone{more}")
        self._refresh()

    def waits(self, seconds: float) -> None:
        self._bar.update(self._task, stage="no machine is left; waiting for one", now="")
        self.says(f"no machine is left; waiting {seconds:g} s for one")

    def starts(self, machine: str, arm: str, block: int | None) -> None:
        self._machines[machine] = arm
        self._refresh()

    def came(self, run: Run) -> None:
        if run.state != OK:
            self.says(f"{run.state} on {run.machine}: {run.program} · {run.variant}{f' {run.value}' if run.value is not None else ''}: {run.reason}")
        if run.block >= 0:
            self._first = self._first or time.monotonic()
            self._runs[run.block] += 1
            self._since += 1
        self._refresh()

    def _refresh(self) -> None:
        arms = len(self._experiment.arms())
        whole = sum(n >= arms for n in self._runs.values())
        done = sum(self._runs.values())
        left = ""
        if self._first and self._since > len(self._machines):
            each = (time.monotonic() - self._first) / self._since
            left = f"at most {clock(each * (self._total - done))} left"
        shown = [f"{name}: {arm}" for name, arm in sorted(self._machines.items())][:_ROWS]
        count = len(self._machines)
        self._bar.update(self._task, total=self._total, completed=done, left=left, stage=f"{whole} of at most {self._experiment.stop.blocks_max} blocks, "
                         f"{count} machine{'s' if count != 1 else ''}", now="; ".join(shown) if count <= 2 else "")
