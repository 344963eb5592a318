"""The progress of several machines: blocks done, time left, who takes part."""

from __future__ import annotations

import sys
import time

from rich.progress import BarColumn, Progress as Bar, TimeElapsedColumn

from ashlar_lab.console import Column, Terminal
from ashlar_lab.experiment.model import Experiment
from ashlar_lab.measure.progress import clock
from ashlar_lab.store.run import OK, Run


class FleetProgress:
    """Shown on standard error when that is a terminal; in a pipe only who joins, who leaves, and failures."""

    def __init__(self, experiment: Experiment, quiet: bool = False):
        self._total, self._quiet = experiment.stop.blocks_max, quiet
        self._console = Terminal(stderr=True)
        self._bar = Bar(Column("{task.fields[stage]}"), BarColumn(), Column("{task.percentage:>3.0f} %"), TimeElapsedColumn(), Column("{task.fields[left]}"),
                        console=self._console, disable=quiet or not sys.stderr.isatty(), transient=True)
        self._task = self._bar.add_task("", total=None, stage="connecting", left="")
        self._began = time.monotonic()

    def __enter__(self) -> "FleetProgress":
        self._bar.start()
        return self

    def __exit__(self, *_) -> None:
        self._bar.stop()

    def says(self, text: str) -> None:
        if not self._quiet:
            self._console.print(text, soft_wrap=True)

    def stage(self, text: str) -> None:
        self._bar.update(self._task, stage=text)

    def failed(self, run: Run) -> None:
        if run.state != OK:
            self.says(f"{run.state} on {run.machine}: {run.program} · {run.variant}{f' {run.value}' if run.value is not None else ''}: {run.reason}")

    def blocks(self, done: int, new: int, machines: int) -> None:
        """`done` blocks are whole, `new` of them are of this session."""
        left = f"at most {clock((time.monotonic() - self._began) / new * (self._total - done))} left" if new else ""
        self._bar.update(self._task, total=self._total, completed=done, left=left,
                         stage=f"{done} of at most {self._total} blocks, {machines} machine{'s' if machines != 1 else ''}")
