"""How often the interval of a ratio holds the truth when measuring stops by its width: the figures of docs/notes/lab-statistics.md.

    python tests/simulate_stopping.py [TRIALS]

Two variants are measured until the stopping rule says enough, at most 30 blocks, under three kinds of noise (drift of a machine does not touch ratios).
"""

from __future__ import annotations

import dataclasses
import math
import sys

import numpy as np
from conftest import make_run, two_variants
from simulate_curves import NOISES

from ashlar_lab.experiment.model import Arm, Stop
from ashlar_lab.fit.cells import Cells
from ashlar_lab.fit.precision import enough, precise_enough
from ashlar_lab.fit.trimmed import trimmed

PRECISIONS = (0.01, 0.015, 0.02)
MOST = 30
RULES = {"the first narrow one": precise_enough, "as measured": enough}


def stopped(rng: np.random.Generator, noise, precision: float, rule) -> tuple[bool, int]:
    """Whether the interval holds the true ratio, and after how many blocks measuring stopped."""
    experiment = dataclasses.replace(two_variants(), stop=Stop(10, MOST, precision))
    times = np.exp(noise(rng, (2, MOST)))
    runs = [make_run(b, "p", v, None, float(t), 100) for b in range(MOST) for v, t in zip(("old", "new"), times[:, b])]
    blocks = next((n for n in range(10, MOST) if rule(experiment, runs[:2 * n])), MOST)
    found = Cells(runs[:2 * blocks]).ratio("cpu_s", Arm("p", "new", None), Arm("p", "old", None))
    return found.low <= 1 <= found.high, blocks


def main(trials: int) -> None:
    print(f"{'':14}{'precision':>10}" + "".join(f"{name:>24}" for name in RULES) + f"{'30 blocks always':>20}")
    bad, chance = [], 2 * math.sqrt(0.05 * 0.95 / trials)
    for name in ("normal", "skewed", "heavy-tailed"):
        noise = NOISES[name]
        for precision in PRECISIONS:
            row = f"{name:14}{100 * precision:8.1f} %"
            for rule in RULES.values():
                rng = np.random.default_rng(1)
                found = [stopped(rng, noise, precision, rule) for _ in range(trials)]
                held, blocks = np.mean(found, axis=0)
                row += f"{100 * held:12.1f} % ({blocks:4.1f})"
            bad += [f"{name} at {100 * precision:g} %"] if held < 0.93 - chance else []
            rng = np.random.default_rng(1)
            fixed = [trimmed(np.subtract(*noise(rng, (2, MOST)))) for _ in range(trials)]
            print(f"{row}{100 * np.mean([abs(t.mean) <= t.half_width() for t in fixed]):18.1f} %", flush=True)
    if bad:
        raise SystemExit("below 93 % by more than chance: " + "; ".join(bad))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
