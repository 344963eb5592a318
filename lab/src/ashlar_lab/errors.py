"""What a user sees instead of a traceback: one line naming what was wrong, the value, and what to do."""


class BadInput(Exception):
    """The request cannot be carried out as given. Ends the command with exit status 2."""


class Unfinished(Exception):
    """A measurement cannot go on for the reason that the message gives; what was measured is kept. Ends the command with exit status 2,
    after the report."""
