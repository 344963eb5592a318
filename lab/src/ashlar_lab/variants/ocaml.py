"""OCaml's collector, steered by OCAMLRUNPARAM."""

from ashlar_lab.variants.base import Base, in_one_variable

_MEANING = {
    "a": "allocation policy: 0 next-fit, 1 first-fit, 2 best-fit (OCaml 4)",
    "o": "space_overhead: per cent of memory that may be garbage",
    "i": "major heap increment: per cent up to 1000, else words (a nuisance knob; the default is the runtime's)",
    "s": "minor heap size in words",
    "h": "initial major heap size in words (OCaml 4)",
    "O": "max_overhead: fragmentation that triggers a compaction (OCaml 4)",
    "v": "what the runtime prints about itself",
}

OCAML = Base("ocaml", "a program compiled by OCaml", _MEANING, in_one_variable("OCAMLRUNPARAM", ",", lambda name, value: f"{name}={value}" if name in _MEANING else None))
