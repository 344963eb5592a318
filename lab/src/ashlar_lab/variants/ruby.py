"""Ruby's collectors: which library, how it grows, and Ashlar's own settings."""

import os
from pathlib import Path

from ashlar.errors import BadInput
from ashlar.memory.native import cache_directory
from ashlar_lab.variants.base import Base, as_variables

_VARIABLES = {
    "library": "RUBY_GC_LIBRARY: the modular collector to load, such as default or ashlar",
    "space_overhead": "ASHLAR_SPACE_OVERHEAD: per cent of memory that may be garbage, or auto",
    "exchange_rate": "ASHLAR_EXCHANGE_RATE: per cent of memory that one per cent of CPU time is worth",
    "memory_limit": "ASHLAR_MEMORY_LIMIT",
    **{name: f"RUBY_GC_{name.upper()}" for name in (
        "heap_growth_factor", "heap_growth_max_slots", "heap_free_slots_min_ratio", "heap_free_slots_goal_ratio", "heap_free_slots_max_ratio",
        "heap_oldobject_limit_factor", "malloc_limit", "malloc_limit_max", "malloc_limit_growth_factor", "oldmalloc_limit", "oldmalloc_limit_max")},
}
_MEANING = {**_VARIABLES, "ruby": "the interpreter to put where the command says {ruby}"}


def _mapped(settings: dict[str, str]) -> str | None:
    return f"librubygc.{settings['library']}" if settings.get("library") else None


RUBY = Base("ruby", "a program run by Ruby", _MEANING, as_variables(_VARIABLES), _mapped)

# Ruby's defaults, in bytes; `growth` scales them, and how far above the last full collection the old objects may grow.
_MALLOC_LIMITS = {"RUBY_GC_MALLOC_LIMIT": 16 << 20, "RUBY_GC_MALLOC_LIMIT_MAX": 32 << 20, "RUBY_GC_OLDMALLOC_LIMIT": 16 << 20,
                  "RUBY_GC_OLDMALLOC_LIMIT_MAX": 128 << 20}
_GROWTH = "per cent of Ruby's own: how far old objects, malloc and the heap grow between collections, all growth knobs together; 100 is the default"
_OWN = {"space_overhead", "exchange_rate", "memory_limit", "library"}


def _stock_environment(settings: dict[str, str]) -> dict[str, str]:
    found = {"RUBY_GC_LIBRARY": ""}  # what the shell says about collectors is not the baseline's
    if "growth" in settings:
        try:
            share = float(settings["growth"]) / 100
        except ValueError:
            share = 0.0
        if not 0.01 <= share <= 100:
            raise BadInput(f"growth = {settings['growth']} of ruby-stock is out of reach; give a percentage of 1 to 10000, such as growth=25,50,100,200,400")
        found |= {name: str(round(size * share)) for name, size in _MALLOC_LIMITS.items()}
        found |= {"RUBY_GC_HEAP_OLDOBJECT_LIMIT_FACTOR": f"{1 + share:g}", "RUBY_GC_HEAP_GROWTH_FACTOR": f"{1 + 0.8 * share:g}"}
    return {**found, **as_variables(_VARIABLES)(settings)}


def _built(kind: str) -> Path | None:
    """The newest Ruby of that kind that this project has built."""
    made = [folder / "prefix/bin/ruby" for folder in cache_directory().glob(f"rubies/ruby-*-{kind}-*") if (folder / "finished").exists()]
    return max((m for m in made if m.exists()), key=lambda m: m.stat().st_mtime, default=None)


def _interpreter(base: str, variable: str, kind: str, settings: dict[str, str]) -> Path:
    given = settings.get("ruby") or os.environ.get(variable)
    if given and not os.access(given, os.X_OK):
        raise BadInput(f"{base}: the Ruby {given} cannot be run; give ruby=PATH, or set {variable}")
    found = Path(given) if given else _built(kind)
    if not found:
        raise BadInput(f"{base}: no such Ruby is built; run 'make ruby' in a clone of Ashlar, set {variable}, or give {base}:ruby=PATH")
    return found.absolute()


def _find_ashlar(settings: dict[str, str]) -> dict[str, str]:
    ruby = _interpreter("ruby-ashlar", "RUBY", "modular", settings)
    library = settings.get("library") or os.environ.get("ASHLAR_GC_LIBRARY") or "ashlar"
    folder = ruby.parent.parent / "lib/ruby-gc"
    if folder.is_dir() and not (folder / f"librubygc.{library}.so").exists():
        raise BadInput(f"ruby-ashlar: {folder} has no librubygc.{library}.so; run 'make lib' in a clone of Ashlar, or give library=NAME")
    return {"ruby": str(ruby), "library": library}


def _beside(settings: dict[str, str]) -> str | None:
    return os.path.dirname(settings["ruby"]) if settings.get("ruby") else None


STOCK = Base("ruby-stock", "the stock Ruby that this project builds, or RUBY_STOCK: `ruby` in the command is this one",
             {"growth": _GROWTH, **{k: v for k, v in _MEANING.items() if k not in _OWN}}, _stock_environment,
             found=lambda settings: {"ruby": str(_interpreter("ruby-stock", "RUBY_STOCK", "stock", settings))}, path=_beside,
             sweeps={"growth": ("12", "25", "50", "100", "200", "400", "800")})
ASHLAR = Base("ruby-ashlar", "Ruby on Ashlar, built by this project, or RUBY with ASHLAR_GC_LIBRARY: `ruby` in the command is this one",
              {k: _MEANING[k] for k in ("space_overhead", "exchange_rate", "memory_limit", "library", "ruby")}, as_variables(_VARIABLES), _mapped, found=_find_ashlar, path=_beside,
              sweeps={"space_overhead": ("20", "30", "45", "60", "90", "140", "220")})
