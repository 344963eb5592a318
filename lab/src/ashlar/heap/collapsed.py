"""Collapsed stacks: a line for each stack, outermost frame first, then a number. What flamegraph.pl, inferno and speedscope read."""

from ashlar.heap.profile import Profile


def render(found: Profile, measure: str) -> str:
    """Bytes by stack. `measure` is `live` or `allocated`. The innermost frame is the class that was allocated."""
    lines: dict[str, float] = {}
    for site in found.sites:
        size = getattr(site.amounts, measure).bytes.value
        if size >= 0.5:
            frames = (f"{f.label} {f.short_place}" if f.path else f.label for f in reversed(site.stack_shown))
            stack = ";".join(map(_plain, (*frames, site.class_shown)))
            lines[stack] = lines.get(stack, 0.0) + size
    return "".join(f"{stack} {round(size)}\n" for stack, size in sorted(lines.items()))


def _plain(text: str) -> str:
    """Text in which a semicolon ends nothing."""
    return text.replace(";", ",").replace("\n", " ").replace("\r", " ")
