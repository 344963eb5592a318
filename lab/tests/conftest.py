"""Shared means: a quick way to run the command, and experiments made of simulated runs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from forks import Forks

from ashlar_lab.experiment.model import MAIN, TWIN, Experiment, Program, Stop, Variant
from ashlar_lab.store.run import Run

CLONE = Path(__file__).parents[2]
VERBS = ("try", "heap", "top", "shared", "boot", "retained", "mem", "completion")  # those of `ashlar`; the others are of `ashlar-lab`

# Tests of terminals and of interrupts are about those of an ordinary shell, wherever they run: a shell script starts what goes
# into the background with SIGINT ignored, and programs inherit that, as they inherit TERM=dumb.
os.environ["TERM"] = "xterm-256color"
signal.signal(signal.SIGINT, signal.default_int_handler)

# The bare interpreter: a version manager's shim would add processes of its own.
PYTHON = os.path.realpath(sys.executable)


def pytest_configure(config):
    config.addinivalue_line("markers", "rubies: about the Rubies themselves; `make test-inside` runs these with this clone's")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    for item in items:
        if "pair" in item.fixturenames:
            item.add_marker(pytest.mark.rubies)


@pytest.fixture(scope="module")
def forks():
    """Of one file of tests: it is a child of this process, and other files are about all children that there are."""
    started = Forks()
    yield started
    started.close()


@pytest.fixture
def ashlar(tmp_path, tmp_path_factory, forks):
    """Run `ashlar`, or for its verbs `ashlar-lab`, in an empty folder; returns the completed process. `ashlar-lab` is forked from a process that has
    imported it, unless the environment is another one than that process began with."""
    def run(*arguments, timeout=120, **environment):
        program = "ashlar" if arguments[0] in VERBS else "ashlar_lab"
        if program == "ashlar_lab" and not environment and forks.began_with(os.environ):
            return forks.finished("ashlar-lab", arguments, tmp_path, tmp_path_factory.mktemp("told"), timeout)
        return subprocess.run([sys.executable, "-m", program, *map(str, arguments)], cwd=tmp_path, capture_output=True, text=True,
                              timeout=timeout, env={**os.environ, **environment})
    return run


@pytest.fixture(scope="session")
def ruby():
    """(The Ruby that loads collectors, the name of this clone's collector): from the environment, or from the clone once its
    library is made, which is not the lab's to build."""
    if os.environ.get("RUBY") and os.environ.get("ASHLAR_GC_LIBRARY"):
        return os.environ["RUBY"], os.environ["ASHLAR_GC_LIBRARY"]
    if not (CLONE / "build/librubygc.ashlar.so").exists():
        pytest.skip("no Ruby that loads collectors: `make lib` builds one with this clone's collector")
    script = f'exports=$({CLONE}/scripts/ruby/env.sh) && eval "$exports" && echo "$RUBY" && echo "$ASHLAR_GC_LIBRARY"'
    told = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=300, check=True)
    return tuple(told.stdout.split())


def two_variants(programs=("p",), values=(), names=("old", "new"), **rest) -> Experiment:
    """An experiment of two variants, the first being the baseline."""
    return Experiment(
        name="simulated", title="Simulated runs", programs=tuple(Program(p, ("true",)) for p in programs),
        variants=tuple(Variant(n, "env", knob="k" if values else None, values=tuple(map(str, values))) for n in names),
        baseline=names[0], stop=Stop(10, 10), **rest)


def make_run(block: int, program: str, variant: str, value: str | None, time_s: float, space_mib: float, role: str = MAIN, **more) -> Run:
    metrics = {"cpu_s": time_s, "wall_s": time_s, "peak_mib": space_mib, **more.pop("metrics", {})}
    return Run(block, 0, program, variant, value, role, more.pop("state", "ok"), metrics=metrics, command=("true",), **more)


def noisy(rng: np.random.Generator, n: int, sigma: float = 0.03, spikes: float = 0.1) -> np.ndarray:
    """Multiplicative noise as timing has it: small and symmetric, with one-sided spikes of up to half."""
    hit = rng.random(n) < spikes
    return np.exp(rng.normal(0, sigma, n)) * np.where(hit, 1 + 0.5 * rng.random(n), 1)


def simulated_sweep(rng, truths: dict, gaps=(10, 16, 25, 40, 63, 100, 160), blocks: int = 10, sigma: float = 0.03, spikes: float = 0.05,
                    space_sigma: float = 0.0005) -> tuple[Experiment, list[Run]]:
    """Runs whose true curve is a + b/(space − c); the knob sets the gap above c. The A/A arm shows no difference."""
    experiment = two_variants(values=range(len(gaps)), names=tuple(truths))
    runs = []
    for block in range(blocks):
        slow = np.exp(rng.normal(0, 0.05))
        for name, (a, b, c) in truths.items():
            noise, wobble = noisy(rng, len(gaps), sigma, spikes), np.exp(rng.normal(0, space_sigma, len(gaps)))
            for k, gap in enumerate(gaps):
                both = (a + b / gap) * slow * noise[k], (c + gap) * wobble[k]
                runs += [make_run(block, "p", name, str(k), *both, role) for role in ((MAIN, TWIN) if (name, k) == (experiment.baseline, len(gaps) // 2) else (MAIN,))]
    return experiment, runs


__all__ = ["PYTHON", "TWIN", "make_run", "noisy", "simulated_sweep", "two_variants"]
