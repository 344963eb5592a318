"""How a metric is called and how its values are written. The unit is the end of the metric's name."""

import math
from collections.abc import Callable

from ashlar_lab.fit.ratios import Level
from ashlar_lab.fit.trimmed import LEAST_BLOCKS, Estimate
from ashlar_lab.metrics import TITLES, UNITS, unit_of

TOO_FEW, NOT_MEASURED, UNDEFINED = "too few blocks", "not measured", "undefined"


def unit(metric: str) -> str:
    return unit_of(metric).symbol


def title(metric: str, with_unit: bool = True) -> str:
    """A heading such as `Peak memory (MiB)`."""
    name = TITLES.get(metric)
    if name is None:
        words = [w for w in metric.removesuffix("_per_s").split("_") if w not in UNITS]
        name = " ".join(words).capitalize() or metric
    return f"{name} ({unit(metric)})" if with_unit and unit(metric) else name


def in_sentence(metric: str) -> str:
    """The name inside a sentence: `peak memory`, but `CPU time`."""
    name = title(metric, False)
    return name if name[:2].isupper() else name[:1].lower() + name[1:]


def more_is_better(metric: str) -> bool:
    return metric.endswith("_per_s")


def number(value: float | None) -> str:
    """Four significant digits, thousands as k, M, G; never scientific notation."""
    if value is None or math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    size = abs(value)
    for limit, letter in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if size >= limit:
            return f"{value / (1e3 if letter == 'k' else limit):.4g}{letter}"
    if value == int(value):
        return str(int(value))
    places = 1 if size >= 100 else 2 if size >= 10 else 3
    return f"{value:.{places}f}" if size >= 0.01 else f"{value:.2g}"


def level(found: Level | None) -> str:
    """The plain value of a metric in one arm."""
    return number(found.mean.value) if found else "–"


def counted(n: int, noun: str) -> str:
    """`1 block`, `2 blocks`."""
    return f"{n} {noun}{'s' if n != 1 else ''}"


def ratio(value: float, digits: int = 2) -> str:
    return f"{value:.{digits}f}" if math.isfinite(value) else number(value)


def digits(e: Estimate) -> int:
    """Decimals that an interval of this width deserves."""
    return 3 if e.high - e.low < 0.05 else 2


def interval(e: Estimate | None, write: Callable[[float], str] | None = None) -> str:
    """`0.82 [0.79, 0.85]`; too few blocks for an interval are called so, and so is what has no value. `write` is for what is no ratio."""
    if e is None:
        return "–"
    if math.isnan(e.value):
        return UNDEFINED if e.n else NOT_MEASURED
    write = write or (lambda value: ratio(value, digits(e)))
    return f"{write(e.value)} [{TOO_FEW if too_few(e) else f'{write(e.low)}, {write(e.high)}'}]"


def too_few(e: Estimate) -> bool:
    """Whether there is no interval because blocks are missing."""
    return not math.isfinite(e.high) and e.n < LEAST_BLOCKS


def p_value(p: float) -> str:
    """`p 0.013`: the chance of data that speak so clearly for a statement that is not true; never a certainty."""
    return "p <0.0001" if p < 1e-4 else "p >0.99" if p > 0.99 else f"p {p:.2g}"


def percent(fraction: float, signed: bool = True) -> str:
    if not math.isfinite(fraction):
        return f"{number(fraction)} %"
    size = abs(fraction) * 100
    text = f"{fraction * 100:{'+' if signed else ''}.{0 if size >= 9.5 else 1}f} %"
    return text.replace("-0.0", "0.0")


def noise(floor: float) -> str:
    """What the A/A arm says, as a clause."""
    return f"the baseline differs from itself by {percent(floor, signed=False)}" if math.isfinite(floor) else "no A/A arm says how far the baseline differs from itself"
