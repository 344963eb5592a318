"""What a user sees instead of a traceback: one line naming what was wrong, the value, and what to do."""


class BadInput(Exception):
    """The request cannot be carried out as given. Ends the command with exit status 2."""
