"""How often a difference that is there is found, and one that is not is said to be: the figures of docs/notes/lab-statistics.md.

    python tests/simulate_planted.py [TRIALS]

Ten blocks have a baseline, its A/A twin, and a variant that takes 0, 1, 3 or 10 % more. Judged is what a report says of the ratio.
"""

from __future__ import annotations

import math
import sys

import numpy as np
from simulate_curves import NOISES

from ashlar_lab.fit.floor import largest
from ashlar_lab.fit.trimmed import exp_estimate, trimmed_columns
from ashlar_lab.report.words import _judged

PLANTED = (0.0, 0.01, 0.03, 0.10)
BLOCKS = 10
FALSE_MOST, FOUND_LEAST = 0.05, 0.99


def by_chance(trials: int) -> float:
    """What the share of false verdicts may be over its most in so few trials."""
    return 2 * math.sqrt(FALSE_MOST * (1 - FALSE_MOST) / trials)


def normal(sigma: float):
    return lambda rng, shape: rng.normal(0, sigma, shape)


RUNS = {"normal, 1 %": normal(0.01), "normal, 2 %": normal(0.02), "normal, 5 %": normal(0.05), "skewed, 2 %": NOISES["skewed"], "heavy-tailed": NOISES["heavy-tailed"]}


def verdicts(planted: float, noise, trials: int, seed: int = 1) -> tuple[float, float]:
    """The shares of trials that say worse, and better."""
    old, twin, new = noise(np.random.default_rng(seed), (3, BLOCKS, trials))
    said = [_judged(exp_estimate(ratio), "old", largest([exp_estimate(itself)], itself.n), "cpu_s")
            for ratio, itself in zip(trimmed_columns(new + np.log1p(planted) - old), trimmed_columns(twin - old))]
    return tuple(sum(s.endswith(f"which is {word}") for s in said) / trials for word in ("worse", "better"))


def main(trials: int) -> None:
    print(f"share of {trials} trials of {BLOCKS} blocks that say there is a difference; in brackets, in the wrong direction")
    print(f"{'noise of a run':16}" + "".join(f"{f'{100 * p:.0f} %':>18}" for p in PLANTED))
    bad = []
    for name, noise in RUNS.items():
        found = {planted: verdicts(planted, noise, trials) for planted in PLANTED}
        print(f"{name:16}{100 * sum(found[0.0]):16.1f} %" + "".join(f"{100 * worse:7.1f} % ({100 * better:5.2f} %)" for p, (worse, better) in found.items() if p), flush=True)
        bad += [f"false verdicts under {name}"] if sum(found[0.0]) > FALSE_MOST + by_chance(trials) else []
        bad += [f"10 % under {name}"] if name == "normal, 2 %" and found[0.10][0] < FOUND_LEAST else []
    if bad:
        raise SystemExit(f"more than {100 * FALSE_MOST:.0f} % false by more than chance, or less than {100 * FOUND_LEAST:.0f} % found: " + "; ".join(bad))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2000)
