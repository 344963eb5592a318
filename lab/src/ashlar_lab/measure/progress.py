"""The progress line: what runs now, how far, how long still; of several machines, who takes part."""

import sys
import time
from collections.abc import Sequence
from statistics import fmean

from rich.console import Console
from rich.progress import BarColumn, Progress as Bar, TextColumn, TimeElapsedColumn
from rich.text import Text

from ashlar.said import one_line, visible
from ashlar_lab.experiment.model import Arm, Experiment
from ashlar_lab.store.run import OK, Run


class _Column(TextColumn):
    """What fills its fields is text: no markup, no names of emoji."""

    def render(self, task) -> Text:
        return Text(one_line(self.text_format.format(task=task)), style=self.style, justify=self.justify)


class _Line(Bar):
    """Shown on standard error when that is a terminal."""

    def __init__(self, experiment: Experiment, quiet: bool, stage: str, *more: _Column, **fields: str):
        super().__init__(_Column("{task.fields[stage]}"), BarColumn(), _Column("{task.percentage:>3.0f} %"), TimeElapsedColumn(), _Column("{task.fields[left]}"), *more,
                         console=Console(stderr=True), disable=quiet or not sys.stderr.isatty(), transient=True)
        self._stop, self._quiet = experiment.stop, quiet
        self._task = self.add_task("", total=None, stage=stage, left="", **fields)

    def says(self, text: str) -> None:
        if not self._quiet:
            self.console.print(Text(visible(text)), soft_wrap=True)


class Progress(_Line):
    """In a pipe failures are printed, and how far it is after a block, at most once in LINE_EVERY_S."""

    LINE_EVERY_S = 60.0

    def __init__(self, experiment: Experiment, quiet: bool = False):
        super().__init__(experiment, quiet, "starting", _Column("{task.fields[arm]}", "dim"), arm="")
        self._runs = len(experiment.arms()) * self._stop.blocks_max
        self._done = 0  # runs of blocks; a block ends before the next begins
        self._seconds: list[float] = []
        self._told_blocks, self._told_s = 0, time.monotonic()

    def starts(self, arms: Sequence[Arm], stage: str) -> None:
        self.update(self._task, stage=stage, arm=arms[0].label() if len(arms) == 1 else f"{arms[0].program} · {len(arms)} runs in turns")

    def ended(self, run: Run) -> None:
        if run.state != OK and not self._quiet:
            self.console.print(Text.assemble((f"{run.state}:", "yellow"), visible(f" {run.arm.label()}: {run.reason}")))
        self.count(run)

    def count(self, *runs: Run) -> None:
        """Count runs that have ended. Time left, at most: the mean time of a run so far, for each run that is still to come."""
        self._done += sum(run.block >= 0 for run in runs)
        self._seconds += [run.metrics.get("wall_s", 0.0) + 0.02 for run in runs]
        if not self._seconds:
            return
        each = fmean(self._seconds)
        total, left = each * self._runs, each * (self._runs - self._done)
        if budget := self._stop.budget_s:
            left = min(left, max(0.0, budget - (total - left)))
            total = min(total, budget)
        self.update(self._task, total=total, completed=total - left, left=f"at most {clock(left)} left")
        whole, now_s = self._done * self._stop.blocks_max // self._runs, time.monotonic()
        if whole > self._told_blocks and now_s - self._told_s >= self.LINE_EVERY_S and not self.console.is_terminal:
            self._told_blocks, self._told_s = whole, now_s
            self.says(f"{whole} of at most {self._stop.blocks_max} blocks, at most {clock(left)} left")


class FleetProgress(_Line):
    """Of several machines; in a pipe only who joins, who leaves, and failures."""

    def __init__(self, experiment: Experiment, quiet: bool = False):
        super().__init__(experiment, quiet, "connecting")
        self._began = time.monotonic()

    def stage(self, text: str) -> None:
        self.update(self._task, stage=text)

    def failed(self, run: Run) -> None:
        if run.state != OK:
            self.says(f"{run.state} on {run.machine}: {run.arm.label()}: {run.reason}")

    def blocks(self, done: int, new: int, machines: int) -> None:
        """`done` blocks are whole, `new` of them are of this session."""
        total = self._stop.blocks_max
        left = f"at most {clock((time.monotonic() - self._began) / new * (total - done))} left" if new else ""
        self.update(self._task, total=total, completed=done, left=left,
                    stage=f"{done} of at most {total} blocks, {machines} machine{'s' if machines != 1 else ''}")


def clock(seconds: float) -> str:
    minutes, seconds = divmod(int(seconds + 0.5), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
