"""A million synthetic runs of a thousand machines, merged from several stores, fitted and reported: how long, in how much memory.

    python tests/scale.py [runs] [machines] [stores] [--sweep]
"""

from __future__ import annotations

import dataclasses
import json
import resource
import subprocess
import sys
import tempfile
import time
import zlib
from pathlib import Path

import numpy as np
from conftest import two_variants

from ashlar_lab.store.database import _JSON, _PACKED, _PLAIN, Store

FACTS = {"architecture": "x", "cpu": "y", "cpus": 2, "memory_gib": 4, "kernel": "1", "libc": "glibc 2"}
_REPORT = """
import resource, sys, time
from pathlib import Path
from ashlar_lab import compare
began = time.monotonic()
compare.report_files([Path(p) for p in sys.argv[2:]], Path(sys.argv[1]), ["html", "md", "json"], quiet=True)
print(time.monotonic() - began, time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def write_stores(folder: Path, runs: int, machines: int, stores: int, sweep: bool) -> list[Path]:
    """Stores with whole blocks, each machine in one of them; rows are written as the store writes them, metrics as a run has them."""
    rng = np.random.default_rng(1)
    gaps = (10, 16, 25, 40, 63, 100, 160)
    experiment = two_variants(programs=("p", "q"), values=range(len(gaps)) if sweep else ())
    experiment = dataclasses.replace(experiment, stop=dataclasses.replace(experiment.stop, blocks_min=1, blocks_max=10**6))
    arms = experiment.arms()
    empty = {c: zlib.compress(b"[]", 6) for c in _PACKED}
    columns = _PLAIN + _JSON + _PACKED
    speed = np.exp(rng.normal(0, 0.4, machines))
    favour = np.exp(rng.normal(0, 0.01, machines))
    paths, block, each = [], 0, runs // len(arms) // stores
    for s in range(stores):
        path = folder / f"{s}.ashlar"
        with Store.create(path, experiment, FACTS) as store:
            mine = range(s, machines, stores)
            for m in mine:
                store.add_machine(f"m{m:04}", FACTS)
            rows = []
            for b in range(each):
                m = mine[b % len(mine)]
                slow = speed[m] * np.exp(rng.normal(0, 0.05))
                noise = np.exp(rng.normal(0, 0.03, len(arms)))
                for position, arm in enumerate(arms):
                    gap = gaps[int(arm.value)] if arm.value else 40
                    new = arm.variant == "new"
                    t = slow * noise[position] * (1.2 + 40 / gap) * (0.9 * favour[m] if new else 1)
                    space = (45 if new else 60) + gap
                    metrics = {"wall_s": t * 1.02, "user_s": t * 0.9, "sys_s": t * 0.1, "cpu_s": t, "peak_rss_mib": space, "minor_faults": 1000.0, "major_faults": 0.0,
                               "voluntary_switches": 3.0, "involuntary_switches": 5.0, "processes": 1.0, "left_behind": 0.0, "sampling_s": t * 0.004,
                               "peak_mib": space, "mean_mib": space * 0.9, "final_mib": space * 0.95, "others_cpu_s": t * 0.01, "stolen_s": 0.0}
                    values = {"block": b, "position": position, "program": arm.program, "variant": arm.variant, "value": arm.value, "role": arm.role, "state": "ok",
                              "reason": "", "checksum": "c" * 64, "mapped": None, "padding": 0, "errors_tail": "", "started": "2000-01-01T00:00:00Z", "load": 0.5,
                              "machine": f"m{m:04}", "metrics": json.dumps(metrics), "told": "[]", "command": '["true"]', "environment": "{}", "complaints": "[]",
                              "missing": "{}", "others": "{}", **empty}
                    rows.append([values[c] for c in columns])
            with store._connection:
                store._connection.executemany(f"INSERT INTO run ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})", rows)
        paths.append(path)
        block += each
    return paths


def measure(runs: int, machines: int, stores: int, sweep: bool, folder: Path) -> dict:
    """Seconds and MiB of one report over all stores, in a process of its own; and the size of the stores."""
    paths = write_stores(folder, runs, machines, stores, sweep)
    done = subprocess.run([sys.executable, "-c", _REPORT, str(folder / "report"), *map(str, paths)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    seconds, cpu_s, mib = map(float, done.stdout.split()[-3:])
    return {"seconds": seconds, "cpu_s": cpu_s, "mib": mib, "store_bytes_per_run": sum(p.stat().st_size for p in paths) / runs, "html_mib": (folder / "report.html").stat().st_size / 2**20}


if __name__ == "__main__":
    numbers = [int(float(a)) for a in sys.argv[1:] if not a.startswith("-")]
    runs, machines, stores = (numbers + [1_000_000, 1000, 5][len(numbers):])[:3]
    with tempfile.TemporaryDirectory(prefix="ashlar-scale-") as scratch:
        began = time.monotonic()
        found = measure(runs, machines, stores, "--sweep" in sys.argv, Path(scratch))
        print(f"{runs} runs of {machines} machines in {stores} stores: merged, fitted and reported in {found['seconds']:.1f} s ({found['cpu_s']:.1f} s of CPU), {found['mib']:.0f} MiB; "
              f"{found['store_bytes_per_run']:.0f} bytes a run in the store, page of {found['html_mib']:.1f} MiB (made in {time.monotonic() - began - found['seconds']:.0f} s, "
              f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB)")
