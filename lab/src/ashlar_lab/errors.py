"""How a measurement of the lab ends early; what a user can put right is `ashlar.errors.BadInput`."""

from ashlar.errors import BadInput
from ashlar_lab.store.run import Run


class Unfinished(Exception):
    """A measurement cannot go on for the reason that the message gives; what was measured is kept. Ends the command with exit status 2,
    after the report."""


class BaselineFails(BadInput):
    """A check run of the baseline fails, so that nothing is measured."""

    def __init__(self, run: Run):
        wrote = f" It wrote: {run.errors_tail.splitlines()[-1]}" if run.errors_tail else ""
        super().__init__(f"{run.arm.label()}: the baseline fails, {run.reason}.{wrote}")
        self.run = run
