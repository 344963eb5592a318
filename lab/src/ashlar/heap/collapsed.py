"""Collapsed stacks: a line for each stack, outermost frame first, then a number. What flamegraph.pl, inferno and speedscope read."""

from ashlar.heap.profile import Frame, Profile


def render(found: Profile, measure: str) -> str:
    """Bytes by stack. `measure` is `live` or `allocated`. The innermost frame is the class that was allocated."""
    lines: dict[str, float] = {}
    for site in found.sites:
        size = getattr(site.amounts, measure).bytes.value
        if size >= 0.5:
            stack = ";".join([*(_frame(f) for f in reversed(site.stack_shown)), _plain(site.class_shown)])
            lines[stack] = lines.get(stack, 0.0) + size
    return "".join(f"{stack} {round(size)}\n" for stack, size in sorted(lines.items()))


def _frame(frame: Frame) -> str:
    return _plain(f"{frame.label} {frame.short_place}" if frame.path else frame.label)


def _plain(text: str) -> str:
    """Text in which a semicolon ends nothing."""
    return text.replace(";", ",").replace("\n", " ").replace("\r", " ")
