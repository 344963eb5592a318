"""Keep every run. Nothing else in the lab reads or writes result files."""

from ashlar_lab.store.database import FORMAT_VERSION, Store
from ashlar_lab.store.run import Run

__all__ = ["FORMAT_VERSION", "Run", "Store"]
