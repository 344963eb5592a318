"""Node.js, steered through NODE_OPTIONS."""

from ashlar_lab.variants.base import Base

_FLAGS = {"heap": "--max-old-space-size={}", "semi_space": "--max-semi-space-size={}", "options": "{}"}


def _environment(settings: dict[str, str]) -> dict[str, str]:
    options = [_FLAGS[k].format(v) for k, v in settings.items() if k in _FLAGS]
    return {"NODE_OPTIONS": " ".join(options)} if options else {}


NODE = Base(
    "node",
    "a program run by Node.js",
    {"heap": "--max-old-space-size: MiB of the old generation", "semi_space": "--max-semi-space-size: MiB of one young half",
     "options": "anything else NODE_OPTIONS allows"},
    _environment,
)
