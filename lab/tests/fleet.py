"""Simulated machines: unlike in speed, noise and drift, and perhaps in what they favour. Run as a program it prints coverages:

    python tests/fleet.py [trials]
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np
from conftest import make_run, noisy, two_variants

from ashlar_lab.experiment.model import TWIN
from ashlar_lab.fit.analysis import analyse


@dataclass
class Fleet:
    """`count` machines whose speeds are spread by a factor of about three, noises from 1 to 5 %, with drift. `effect` is how much
    machines differ in the ratio itself (standard deviation of its logarithm), `lie` what the last machine's ratio is multiplied by."""

    count: int
    blocks: int
    effect: float = 0.0
    lie: float = 1.0
    ratio: float = 0.8

    def runs(self, rng: np.random.Generator, programs=("p",)):
        """An experiment of two variants and a twin, blocks going to whoever is free."""
        speed = np.exp(rng.normal(0, 0.4, self.count))
        noise = rng.uniform(0.01, 0.05, self.count)
        drift = rng.normal(0, 0.15, self.count)
        own = np.exp(rng.normal(0, self.effect, self.count))
        own[-1] *= self.lie
        free_at = np.zeros(self.count)
        runs = []
        for block in range(self.blocks):
            m = int(free_at.argmin())
            free_at[m] += speed[m] * rng.uniform(0.9, 1.1)
            slow = speed[m] * np.exp(drift[m] * block / self.blocks + rng.normal(0, 0.05))
            for program in programs:
                for variant, role, factor in (("old", "main", 1.0), ("new", "main", self.ratio * own[m]), ("old", TWIN, 1.0)):
                    time = slow * factor * float(noisy(rng, 1, noise[m])[0])
                    space = (80 if variant == "new" else 100) * np.exp(rng.normal(0, 0.0005))
                    runs.append(make_run(block, program, variant, None, time, space, role, machine=f"m{m:02}"))
        return two_variants(programs=programs), runs

    def analysis(self, seed: int, **rest):
        return analyse(*self.runs(np.random.default_rng(seed), **rest))


def coverage(fleet: Fleet, trials: int, programs=("p",)) -> tuple[float, float, float]:
    """The share of trials whose interval holds the true ratio, the mean half width, and the share in which a machine is named."""
    covered = width = accused = 0.0
    for seed in range(trials):
        found = fleet.analysis(seed, programs=programs)
        ratio = found.summaries[0].ratio if len(programs) > 1 else found.ratio("p", "new", "cpu_s")
        covered += ratio.low <= fleet.ratio <= ratio.high
        width += min(10.0, np.log(ratio.high / ratio.low) / 2)
        accused += bool(found.machines and found.machines.disagreements)
    return covered / trials, width / trials, accused / trials


if __name__ == "__main__":
    trials = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    print("machines blocks  effect   lie  programs  covered  half-width  a machine named")
    for programs in (("p",), ("p", "q", "r")):
        for count, blocks in ((2, 10), (4, 12), (5, 15), (8, 24), (20, 40), (20, 100)):
            for effect in (0.0, 0.03) if count >= 5 else (0.0,):
                for lie in (1.0, 1.25):
                    covered, width, accused = coverage(Fleet(count, blocks, effect, lie), trials, programs)
                    print(f"{count:8} {blocks:6} {effect:7} {lie:5} {len(programs):9} {covered:8.3f} {width:11.3f} {accused:16.3f}", flush=True)
