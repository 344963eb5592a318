"""The lab's own process on a machine of a cluster: carries out one request and says each result in one line of JSON.

It is a process of its own, so that neither the worker's threads nor its memory are near the program that is measured, and
so that what else the worker does counts as what it is: another process. The request is the first line of standard input;
when standard input ends, whoever asked is gone, and the agent stops its program and ends.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading

from ashlar_lab.errors import BadInput
from ashlar_lab.experiment.model import Experiment


def main() -> int:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    request = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_the_input, daemon=True).start()
    try:
        for said in _DOES[request["do"]](request, Experiment.from_json(request["experiment"])):
            sys.stdout.write(json.dumps(said) + "\n")
            sys.stdout.flush()
    except KeyboardInterrupt:
        return 130
    except BadInput as error:
        sys.stdout.write(json.dumps({"refused": str(error)}) + "\n")
        sys.stdout.flush()
        return 2
    return 0


def _end_with_the_input() -> None:
    while sys.stdin.read(4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def _join(request: dict, experiment: Experiment):
    """Describe this machine, then the check runs."""
    from ashlar_lab.measure import checks, machine

    yield {"machine": {**machine.describe(), "contenders": checks.contenders(experiment)}}
    if request["check"]:
        for run in checks.check_runs(experiment, request["expected"], on_start=lambda arm, stage: None):
            yield {"run": run.to_json()}
    yield {"joined": True}


def _block(request: dict, experiment: Experiment):
    """The arms of one block that are still to run, in its order."""
    from ashlar_lab.measure.run import run_arm
    from ashlar_lab.store.run import OK

    expected = dict(request["expected"])
    wanted = set(request["positions"])
    for position, arm in enumerate(experiment.order(request["block"])):
        if position not in wanted:
            continue
        yield {"starts": arm.label()}
        run = run_arm(experiment, arm, request["block"], position, expected.get(arm.program))
        if run.state == OK and run.checksum and arm.variant == experiment.baseline:
            expected.setdefault(arm.program, run.checksum)
        yield {"run": run.to_json()}


_DOES = {"join": _join, "block": _block}

if __name__ == "__main__":
    sys.exit(main())
