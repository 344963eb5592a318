"""The lab's own process on a machine of a cluster: measures one block, and says what came in JSON.

It is a process of its own, so that neither the worker's threads nor its memory are near the program that is measured, and
so that what else the worker does counts as what it is: another process. The request is the first line of standard input;
when standard input ends, the worker is gone, and the agent stops its program and ends.
"""

import json
import os
import signal
import sys
import threading
from pathlib import Path

from ashlar.errors import BadInput
from ashlar.files import put
from ashlar_lab.experiment.model import Experiment
from ashlar_lab.measure import checks, machine
from ashlar_lab.measure.cluster.parcel import ROOT
from ashlar_lab.measure.block import groups, run_group


def main() -> int:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    here = json.dumps(os.getcwd())[1:-1]
    request = json.loads(sys.stdin.readline().replace(json.dumps(ROOT)[1:-1], here))
    threading.Thread(target=_end_with_the_input, daemon=True).start()
    experiment = Experiment.from_json(json.dumps(request["experiment"]))
    try:
        said = _measure(experiment, request["block"], request["expected"])
    except KeyboardInterrupt:
        return 130
    except BadInput as error:
        said = {"refused": str(error)}
    sys.stdout.write(json.dumps(said).replace(f"{here}/files", ""))
    return 0


def _end_with_the_input() -> None:
    while sys.stdin.read(4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def _measure(experiment: Experiment, block: int | None, expected: dict[str, str]) -> dict:
    """One block, in its order; none where the machine is only looked at."""
    said, parts = _joined(experiment, expected), groups(experiment, block) if block is not None else ()
    return {**said, "runs": [vars(run) for part in parts for run in run_group(experiment, part, block, expected)]}


def _joined(experiment: Experiment, expected: dict[str, str]) -> dict:
    """What this machine is, and its check runs, made once and kept beside the files."""
    kept = Path("joined.json")
    if not kept.exists():
        ran = list(checks.check_runs(experiment, dict(expected), lambda arms, stage: None))
        checks.refuse_more_than_fits(experiment, ran)
        kernel = machine.read("/proc/sys/kernel/random/boot_id") or ""  # two workers with the same one disturb each other
        facts = {**machine.describe(), "contenders": checks.contenders(experiment), "kernel_instance": kernel}
        put(kept, json.dumps({"facts": facts, "checks": [vars(run) for run in ran]}))
    return json.loads(kept.read_text())


if __name__ == "__main__":
    sys.exit(main())
