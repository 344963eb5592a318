"""Carry out one run: a fresh process tree under the launcher, made into a `Run`."""

import contextlib
import hashlib
import os
import random
import re
import signal
import subprocess
import tempfile
import time
from itertools import pairwise
from pathlib import Path

from ashlar.errors import BadInput
from ashlar.memory import launcher
from ashlar_lab import variants
from ashlar_lab.experiment.model import CHECK, Arm, Experiment
from ashlar_lab.measure import cgroup, figures, pages, serve
from ashlar_lab.measure.turns import Turn
from ashlar_lab.store.run import CRASHED, OK, TIMED_OUT, WRONG_LIBRARY, WRONG_OUTPUT, Run, same_output

# Set for a program that takes turns, which then tells no figures of the wall clock: they have the time in which it stood still.
TAKES_TURNS = "ASHLAR_TAKES_TURNS"
_PADDING_MAX = 4096
_TAIL_BYTES = 2000
_LAUNCHER_FAILED = 125
# Metric → the launcher's number, and how many of its units make one of the metric's; and the numbers that are metrics as they are.
_NUMBERS = {"wall_s": ("wall_ns", 1e9), "user_s": ("user_us", 1e6), "sys_s": ("sys_us", 1e6), "peak_rss_mib": ("max_rss_kb", 1024),
            "sampling_s": ("launcher_us", 1e6)}
_COUNTS = ("minor_faults", "major_faults", "voluntary_switches", "involuntary_switches", "left_behind")
_WHY_NO_COUNTER = {"No such file or directory": "this CPU (or virtual machine) offers no such counter",
                   "Permission denied": "perf_event_paranoid forbids it", "Operation not permitted": "the sandbox forbids perf_event_open",
                   "Function not implemented": "the kernel has no perf events", "Operation not supported": "this CPU offers no such counter"}


def run_arm(experiment: Experiment, arm: Arm, block: int, position: int, expected: dict[str, str], turn: Turn | None = None) -> Run:
    """Run `arm` once. `expected` has the checksums that programs' outputs must have, as far as they are known, and takes in what the baseline shows.
    With a `turn` it runs in turns with others."""
    if turn:
        turn.wait()
    program, variant = experiment.program(arm.program), experiment.variant(arm.variant)
    port = serve.choose_port(program.server) if program.server else None
    start = variants.start_of(program, variant, arm.value, port)
    chance = random.Random(f"{experiment.seed}:{block}:{position}:padding")
    padding = chance.randrange(_PADDING_MAX)
    traced = arm.role == CHECK and not program.server
    group = cgroup.MemoryGroup()
    load, started = os.getloadavg()[0], time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    with tempfile.TemporaryDirectory(prefix="ashlar-lab-") as scratch:
        folder = Path(scratch)
        # Environment size shifts the stack and with it the speed of a program; drawn anew for every run.
        environment = {**os.environ, **start.environment, figures.VARIABLE: str(folder / "figures"), "ASHLAR_PADDING": "x" * padding}
        if start.path:
            environment["PATH"] = f"{start.path}:{os.environ.get('PATH', os.defpath)}"
        if turn:
            environment[TAKES_TURNS] = "1"
        directory = variant.directory or program.directory
        with pages.renewed(pages.programs(start.command, environment.get("PATH", os.defpath), directory), chance):
            process = launcher.start(start.command, result=folder / "observed", environment=environment, output=folder / "output", errors=folder / "errors",
                                     directory=directory, preload=start.preload, library=start.library, cgroup=group.entry,
                                     period_us=int(1e6 / experiment.sample_hz), timeout_s=program.timeout_s, trace=traced,
                                     grace_s=program.server.stop_timeout_s if program.server else 0.5, turns_fd=turn.fd if turn else None)
            if turn:
                turn.began(process)
            try:
                served = serve.drive(process, program.server, port, folder) if program.server else None
                process.wait()
            except BaseException:
                stop(process)
                group.close()
                raise
        cgroup_peak, errors_tail = group.close(), _tail(folder / "errors")
        if process.returncode or not (folder / "observed").exists():
            raise BadInput(f"the launcher could not start {start.command[0]!r}: {errors_tail or f'exit {process.returncode}'}")
        seen = launcher.read_observed(folder / "observed")
        if seen.exec_failed:
            raise BadInput(f"cannot run {start.command[0]!r} ({arm.label()}): {seen.exec_failed}; check the path, or PATH")
        if seen.numbers.get("exit") == _LAUNCHER_FAILED and "ashlar-launcher:" in errors_tail:
            raise BadInput(f"cannot run {arm.label()}: {errors_tail}")
        told, complaints = figures.read_figures(folder / "figures")
        checksum = None
        if program.compare_output:
            checksum = served.checksum if served else output_checksum(folder / "output", program.ignore_lines)
    state, reason = _judge(seen, start.library, bool(start.preload), checksum, expected.get(arm.program), served, traced)
    metrics = _metrics(seen, cgroup_peak)
    series = tuple((t / 1e6, kib / 1024, n) for t, kib, n in seen.samples)
    if served:
        metrics |= served.metrics
        # PSS of the tree when the load had ended and the server still ran.
        if marked := [m["pss_kib"] for m in seen.memory if m["moment"] == "mark"]:
            metrics["final_mib"] = sum(marked) / 1024
    told, more = figures.beside_measured(told, metrics)
    metrics |= told
    complaints += more
    missing = {name: _WHY_NO_COUNTER.get(why, why) for name, why in seen.missing_counters.items()}
    missing |= {"cgroup_peak_mib": group.reason} if group.reason else {}
    run = Run(
        block=block, position=position, **arm._asdict(), state=state,
        reason=reason, metrics=metrics, told=tuple(sorted(told)), series=series,
        pss=tuple((t / 1e6, pss / 1024, private / 1024) for t, pss, private, _, _ in seen.pss),
        latency_s=tuple(served.latency_s) if served else (), checksum=checksum, mapped=seen.mapped, command=start.command,
        environment={**({"PATH": f"{start.path}:$PATH"} if start.path else {}), **start.environment, **({"LD_PRELOAD": start.preload} if start.preload else {})}, padding=padding,
        errors_tail=errors_tail if state != OK else "", complaints=tuple(complaints), missing=missing,
        started=started, load=load,
    )
    learn(expected, run, experiment.baseline)
    return run


def learn(expected: dict[str, str], run: Run, baseline: str) -> None:
    """The first good output of the baseline is what all others must print."""
    if run.state == OK and run.checksum and run.variant == baseline:
        expected.setdefault(run.program, run.checksum)


def stop(process: subprocess.Popen) -> None:
    """End the launcher and, through it, everything it started."""
    process.terminate()
    try:
        process.wait(timeout=20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _judge(seen: launcher.Observed, library: str | None, preloaded: bool, checksum: str | None, expected: str | None, served,
           traced: bool) -> tuple[str, str]:
    """The state of a run and one sentence for anything but success."""
    if seen.timed_out:
        return TIMED_OUT, "it did not end within its time limit and was killed"
    if served and served.failure:
        return CRASHED, served.failure
    if "signal" in seen.numbers and not (served and seen.numbers["signal"] in (signal.SIGTERM, signal.SIGKILL)):
        number = int(seen.numbers["signal"])
        return CRASHED, f"it was ended by signal {number} ({signal.Signals(number).name if number in set(signal.Signals) else 'real-time'})"
    if seen.numbers.get("exit", 0) and not served:
        return CRASHED, f"it ended with exit status {int(seen.numbers['exit'])}"
    # Only a traced run is looked at in the moment it ends. In a timed run the maps are read now and then, so
    # a short one may have ended unseen.
    watched = seen.numbers.get("wall_ns", 0) > 1e9
    if library and not seen.mapped and ((traced and seen.traced) or watched):
        why = "the preload did nothing (static binary, or a file that cannot load)" if preloaded else "the program did not load it (one that cannot ignores the setting)"
        return WRONG_LIBRARY, f"{library} was in no process's maps: {why}"
    if expected and checksum and not same_output(checksum, expected):
        return WRONG_OUTPUT, "its output differs from the baseline's"
    return OK, ""


def _metrics(seen: launcher.Observed, cgroup_peak: float | None) -> dict[str, float]:
    n = seen.numbers
    metrics = {name: n.get(number, 0) / size for name, (number, size) in _NUMBERS.items()} | {name: n.get(name, 0) for name in _COUNTS}
    metrics |= {"cpu_s": (n.get("user_us", 0) + n.get("sys_us", 0)) / 1e6, "processes": max(1.0, n.get("processes_max", 1)), **seen.counters}
    if cgroup_peak is not None:
        metrics["cgroup_peak_mib"] = cgroup_peak
    pss_peak = max((pss for _, pss, _, _, _ in seen.pss), default=0) / 1024
    # Of one process the kernel's high-water mark is exact. Of a tree it sees only the largest process,
    # and a sum of RSS counts shared pages several times; there the sampled sum of PSS stands.
    metrics["peak_mib"] = metrics["peak_rss_mib"] if metrics["processes"] <= 1 else max(metrics["peak_rss_mib"], pss_peak)
    if len(seen.samples) >= 2:
        (started, *_), *_, (ended, last, _) = seen.samples
        area = sum((b[0] - a[0]) * (a[1] + b[1]) / 2 for a, b in pairwise(seen.samples))
        metrics["mean_mib"] = area / (ended - started) / 1024
        metrics["final_mib"] = last / 1024
    return metrics


def output_checksum(path: Path, ignore_lines: tuple[str, ...]) -> str:
    """SHA-256 of what the program wrote to standard output, lines matching a pattern left out."""
    digest, patterns = hashlib.sha256(), [re.compile(p.encode()) for p in ignore_lines]
    with path.open("rb") as file:
        if not patterns:
            return hashlib.file_digest(file, "sha256").hexdigest()
        for line in file:
            if not any(p.search(line) for p in patterns):
                digest.update(line)
    return digest.hexdigest()


def _tail(path: Path) -> str:
    with contextlib.suppress(OSError), path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
        return file.read().decode(errors="replace").strip()
    return ""
