"""What a built-in contender has to say about itself."""

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Base:
    """A runtime or allocator the lab knows by name.

    `settings` maps each knob to one line of help; `environment` turns chosen settings into environment
    variables. A setting written in capitals is an environment variable under every base, and every setting
    also fills its `{placeholder}` in commands and environments. `mapped` says which library the chosen settings make
    the runtime itself load, as text of its path; `library` the same of a preloaded allocator. `found` gives the settings
    that are looked up on this machine where the user does not give them, and `path` the folder that the settings put in front of PATH.
    `sweeps` has the values a knob takes when only its name is given; the first knob in it is the base's own.
    """

    name: str
    summary: str
    settings: dict[str, str] = field(default_factory=dict)
    environment: Callable[[dict[str, str]], dict[str, str]] = lambda settings: {}
    mapped: Callable[[dict[str, str]], str | None] = lambda settings: None
    any_setting: bool = False
    package: str | None = None
    files: tuple[str, ...] = ()
    library: str | None = None
    found: Callable[[dict[str, str]], dict[str, str]] = lambda settings: {}
    path: Callable[[dict[str, str]], str | None] = lambda settings: None
    sweeps: dict[str, tuple[str, ...]] = field(default_factory=dict)


def in_one_variable(variable: str, separator: str, form: Callable[[str, str], str | None]) -> Callable[[dict[str, str]], dict[str, str]]:
    """An environment function that puts all settings into one variable; `form` writes one, and None leaves it out."""
    def environment(settings: dict[str, str]) -> dict[str, str]:
        chosen = [written for name, value in settings.items() if (written := form(name, value)) is not None]
        return {variable: separator.join(chosen)} if chosen else {}
    return environment


def as_variables(meanings: dict[str, str]) -> Callable[[dict[str, str]], dict[str, str]]:
    """An environment function of settings that are variables: the meaning of each begins with the variable's name."""
    return lambda settings: {meanings[k].partition(":")[0]: v for k, v in settings.items() if k in meanings}
