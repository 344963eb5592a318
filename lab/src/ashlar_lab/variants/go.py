"""Go's collector."""

from ashlar_lab.variants.base import Base, as_variables

GO = Base(
    "go",
    "a program compiled by Go",
    {"gogc": "GOGC: per cent of the live heap allocated between collections, or off",
     "memlimit": "GOMEMLIMIT: soft limit such as 512MiB", "maxprocs": "GOMAXPROCS: threads that run Go code"},
    as_variables({"gogc": "GOGC", "memlimit": "GOMEMLIMIT", "maxprocs": "GOMAXPROCS"}),
)
