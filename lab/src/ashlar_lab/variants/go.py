"""Go's collector."""

from ashlar_lab.variants.base import Base, as_variables

_MEANING = {"gogc": "GOGC: per cent of the live heap allocated between collections, or off",
            "memlimit": "GOMEMLIMIT: soft limit such as 512MiB", "maxprocs": "GOMAXPROCS: threads that run Go code"}

GO = Base("go", "a program compiled by Go", _MEANING, as_variables(_MEANING))
