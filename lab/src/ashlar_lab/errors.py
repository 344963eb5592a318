"""How a measurement of the lab ends early; what a user can put right is `ashlar.errors.BadInput`."""


class Unfinished(Exception):
    """A measurement cannot go on for the reason that the message gives; what was measured is kept. Ends the command with exit status 2,
    after the report."""
