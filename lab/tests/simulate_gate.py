"""How often the gate rejects a model, by simulation: the figures of docs/notes/lab-statistics.md.

    python tests/simulate_gate.py [STORE ...]      # with stores of a sweep, their residuals are drawn from too

Truths are hyperbolas, hyperbolas that are off by 2 % at every point, and the curves that OCaml's next-fit really had.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np

from ashlar_lab.fit import gate, hyperbola
from ashlar_lab.fit.sweep import sweep_of
from ashlar_lab.fit.trimmed import trimmed_mean

GAPS = np.array([10, 16, 25, 40, 63, 100, 160.0])
FLAT_GAPS = np.array([1, 1.5, 3, 12, 25, 50, 80.0])
ZIGZAG = np.array([1, -1, 1, -1, 1, -1, 1.0])
# o = 20 to 320, (MiB, CPU seconds) of OCaml's next-fit: what scanning a long free list does when the heap grows by 480 KiB at
# a time, as recorded in results/; the same where blocks also hold pointers, so that collecting outweighs most of it; and the
# stairs of a heap that grows by 15 %.
SCANNING = (np.array([117.4, 124.5, 134.9, 150.4, 170.2, 203.8, 254.5]), np.array([1.783, 1.887, 1.739, 1.875, 1.819, 2.029, 2.211]))
SCANNING_LESS = (np.array([92.9, 98.3, 103.7, 113.3, 128.5, 150.6, 176.6]), np.array([2.05, 1.72, 1.57, 1.50, 1.48, 1.59, 1.65]))
STAIRS = (np.array([78.5, 78.4, 78.5, 89.2, 101.7, 115.9, 151.8]), np.array([1.713, 1.703, 1.546, 1.414, 1.287, 1.138, 0.971]))
TRUTHS = {
    "a hyperbola": (60 + GAPS, 1.3 + 40 / GAPS),
    "a nearly flat hyperbola": (78 + FLAT_GAPS, 1.5 + 2 / FLAT_GAPS),
    "a hyperbola, every point 2 % off": (60 + GAPS, (1.3 + 40 / GAPS) * np.exp(0.02 * ZIGZAG)),
    "next-fit, scanning": SCANNING,
    "next-fit, scanning less": SCANNING_LESS,
    "next-fit, stairs": STAIRS,
}
# Those that are good to the margin.
WITHIN = ("a hyperbola", "a nearly flat hyperbola", "a hyperbola, every point 2 % off")


def normal(sigma: float):
    """Noise of a machine without mishaps."""
    return lambda rng, shape: rng.normal(0, sigma, shape)


def spiky(rng: np.random.Generator, shape) -> np.ndarray:
    """3 % of noise, and one run in twenty slower by up to half."""
    return rng.normal(0, 0.03, shape) + np.log(np.where(rng.random(shape) < 0.05, 1 + 0.5 * rng.random(shape), 1))


NOISES = {"1 %": normal(0.01), "3 % and spikes": spiky, "7 %": normal(0.07)}


def rejected(rng: np.random.Generator, truth, noise, blocks: int) -> bool:
    """Whether the data contradict the model in one simulated experiment of the truth and eight other arms."""
    space, time = truth
    slow = rng.normal(0, 0.05, blocks)
    times = np.log(time)[:, None] + slow + noise(rng, (len(time), blocks))
    others = slow + noise(rng, (8, blocks))
    every = np.concatenate([times - np.median(times, axis=1, keepdims=True), others - np.median(others, axis=1, keepdims=True)])
    effect = np.median(every, axis=0)
    spaces = np.log(space)[:, None] + rng.normal(0, 0.001, (len(space), blocks))
    space_error, time_error, _ = gate.errors_of_means(spaces, times, effect)
    points = np.exp(trimmed_mean(spaces))[None], np.exp(trimmed_mean(times - effect) + effect.mean())[None]
    model = hyperbola.fit(*points, space_error, time_error)
    return gate.judge(spaces, times, effect, model).rejected


def rate(truth, noise, blocks: int, trials: int, seed: int = 1) -> float:
    """The share of simulated experiments in which the gate rejects the model."""
    rng = np.random.default_rng(seed)
    return sum(rejected(rng, truth, noise, blocks) for _ in range(trials)) / trials


def residuals_of(store: str):
    """Noise drawn from what a measured sweep has left after its arms and blocks are accounted for."""
    from ashlar_lab.fit.cells import Cells
    from ashlar_lab.store.database import read_all

    experiment, _, runs = read_all([Path(store)])
    found = sweep_of(experiment, Cells(runs), experiment.programs[0].name)
    blocks = len(found.blocks)
    left = np.concatenate([t - found.block_effect() - np.median(t - found.block_effect(), axis=1, keepdims=True) for t in found.time.values()])
    left = left.ravel() * np.sqrt(blocks / (blocks - 1))
    print(f"{store}: {len(left)} residuals, standard deviation {100 * left.std():.1f} %")
    return lambda rng, shape: rng.choice(left, shape)


def main(stores: list[str], trials: int = 1000) -> None:
    noises = {**NOISES, **{store: residuals_of(store) for store in stores}}
    print(f"share of {trials} experiments in which the model is rejected, 7 knob values\n")
    print("| truth | noise | 10 blocks | 40 blocks |\n|---|---|---:|---:|")
    bad, most = [], 0.01 + 2 * math.sqrt(0.01 * 0.99 / trials)
    for truth, points in TRUTHS.items():
        for name, noise in noises.items():
            few, many = (rate(points, noise, blocks, trials) for blocks in (10, 40))
            bad += [f"{truth}, {name}"] if truth in WITHIN and max(few, many) > most else []
            print(f"| {truth} | {name} | {100 * few:.1f} % | {100 * many:.1f} % |", flush=True)
    if bad:
        raise SystemExit("a model within the margin is rejected in more than 1 %, by more than chance: " + "; ".join(bad))


if __name__ == "__main__":
    main(sys.argv[1:])
