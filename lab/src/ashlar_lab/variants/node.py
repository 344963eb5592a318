"""Node.js, steered through NODE_OPTIONS."""

from ashlar_lab.variants.base import Base, in_one_variable

_FLAGS = {"heap": "--max-old-space-size={}", "semi_space": "--max-semi-space-size={}", "options": "{}"}

NODE = Base(
    "node",
    "a program run by Node.js",
    {"heap": "--max-old-space-size: MiB of the old generation", "semi_space": "--max-semi-space-size: MiB of one young half",
     "options": "anything else NODE_OPTIONS allows"},
    in_one_variable("NODE_OPTIONS", " ", lambda name, value: _FLAGS[name].format(value) if name in _FLAGS else None),
)
