"""Compare allocators and collectors so that the answer can be trusted.

The data flow is the folder list: an `experiment` says what to run, `measure` runs it, `store` keeps every
run, `fit` turns runs into ratios and space-time curves with intervals, `report` writes them down.
Only `measure` starts processes; only `store` touches result files; `fit` and `report` are pure.
"""

__version__ = "0.2.0"
