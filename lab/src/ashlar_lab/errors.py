"""How a command of the lab ends early."""

from ashlar.errors import BadInput

__all__ = ["BadInput", "Unfinished"]


class Unfinished(Exception):
    """A measurement cannot go on for the reason that the message gives; what was measured is kept. Ends the command with exit status 2,
    after the report."""
