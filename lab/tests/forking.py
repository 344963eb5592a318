"""Starts the programs of the tests as forks of itself: importing what they use takes longer than most of what they do. Each line of standard input is
an order; the answer is the number of the process that was started. Where the order names a file for the status that is a process between, which
waits for the program and writes the file."""

import json
import os
import signal
import sys
from contextlib import suppress

import ashlar_lab.cli
import ashlar_lab.compare  # noqa: F401

PROGRAMS = {"ashlar-lab": ashlar_lab.cli.main}
with suppress(ImportError):  # the extra 'cluster' is not installed
    from distributed.cli import dask_scheduler, dask_worker

    PROGRAMS |= {"scheduler": lambda: dask_scheduler.main(prog_name="scheduler"), "worker": lambda: dask_worker.main(prog_name="worker")}


def become(program: str, arguments: list[str], environment: dict[str, str], folder: str, output: str, errors: str) -> None:
    """This process, as if it had been started so."""
    for descriptor, file in enumerate((os.devnull, output, errors)):
        opened = os.open(file, os.O_RDWR | os.O_CREAT)
        os.dup2(opened, descriptor)
        os.close(opened)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.argv = [program, *arguments]
    PROGRAMS[program]()


def wait_for(process_id: int, status_file: str) -> None:
    status = os.waitstatus_to_exitcode(os.waitpid(process_id, 0)[1])
    with open(f"{status_file}.new", "w") as file:
        file.write(str(status))
    os.rename(f"{status_file}.new", status_file)
    os._exit(0)


def main() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # who has ended is gone at once
    for line in sys.stdin:
        order = json.loads(line)
        status_file = order.pop("status", None)
        if started := os.fork():
            print(started, flush=True)
            continue
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        if status_file and (program := os.fork()):
            wait_for(program, status_file)
        become(**order)
        return


main()
