"""Ruby's collectors: which library, how it grows, and Ashlar's own settings."""

from ashlar_lab.variants.base import Base, as_variables

_VARIABLES = {
    "library": "RUBY_GC_LIBRARY",
    "space_overhead": "ASHLAR_SPACE_OVERHEAD",
    "memory_limit": "ASHLAR_MEMORY_LIMIT",
    "heap_growth_factor": "RUBY_GC_HEAP_GROWTH_FACTOR",
    "heap_growth_max_slots": "RUBY_GC_HEAP_GROWTH_MAX_SLOTS",
    "heap_free_slots_min_ratio": "RUBY_GC_HEAP_FREE_SLOTS_MIN_RATIO",
    "heap_free_slots_goal_ratio": "RUBY_GC_HEAP_FREE_SLOTS_GOAL_RATIO",
    "heap_free_slots_max_ratio": "RUBY_GC_HEAP_FREE_SLOTS_MAX_RATIO",
    "heap_oldobject_limit_factor": "RUBY_GC_HEAP_OLDOBJECT_LIMIT_FACTOR",
    "malloc_limit": "RUBY_GC_MALLOC_LIMIT",
    "malloc_limit_max": "RUBY_GC_MALLOC_LIMIT_MAX",
    "malloc_limit_growth_factor": "RUBY_GC_MALLOC_LIMIT_GROWTH_FACTOR",
    "oldmalloc_limit": "RUBY_GC_OLDMALLOC_LIMIT",
    "oldmalloc_limit_max": "RUBY_GC_OLDMALLOC_LIMIT_MAX",
}
_MEANING = {name: variable for name, variable in _VARIABLES.items()}
_MEANING["library"] = "RUBY_GC_LIBRARY: the modular collector to load, such as default or ashlar"
_MEANING["space_overhead"] = "ASHLAR_SPACE_OVERHEAD: per cent of memory that may be garbage"
_MEANING["ruby"] = "the interpreter to put where the command says {ruby}"



def _mapped(settings: dict[str, str]) -> str | None:
    return f"librubygc.{settings['library']}" if settings.get("library") else None


RUBY = Base("ruby", "a program run by Ruby", _MEANING, as_variables(_VARIABLES), _mapped)
