"""Keep every run. Nothing else in the lab reads or writes result files."""

from ashlar_lab.store.run import Run

__all__ = ["FORMAT_VERSION", "Run", "Store"]


def __getattr__(name: str):
    """The database needs numpy, which a machine that only measures may not have: it is loaded when asked for."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ashlar_lab.store import database

    return getattr(database, name)
