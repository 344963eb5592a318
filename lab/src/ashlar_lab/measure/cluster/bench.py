"""What a worker of the cluster measures with: a plug-in of Dask that carries the files, and starts the agent for each block.

A worker need not have the lab installed, so this file travels by value and imports nothing but Python's library and Dask. The lab itself
is among the files that are carried.
"""

import asyncio
import contextlib
import hashlib
import io
import json
import os
import platform
import shutil
import socket
import subprocess
import sys
import tarfile
import tempfile

from distributed import WorkerPlugin, get_worker
from distributed.utils import sync


class Bench(WorkerPlugin):
    """One comparison in one worker. Dask gives it to every worker, to one that comes later as well, and calls `setup` before that
    worker is given any work. `refusal` says why this worker cannot measure; the first block that comes is answered with it, and
    the worker offers nothing from then on."""

    def __init__(self, name, archive, there, experiment):
        self.name, self.archive, self.there, self.experiment = name, archive, there, experiment
        self.root = self.agent = None
        self.refusal = ""

    async def setup(self, worker):
        self.worker, archive, self.archive = worker, self.archive, b""
        if "ashlar" not in worker.state.total_resources:
            return
        try:
            self.refusal = await asyncio.to_thread(self._lay_out, archive, worker.local_directory)
        except Exception as error:
            self.refusal = f"{type(error).__name__}: {error}"

    async def teardown(self, worker):
        await asyncio.to_thread(self._clear)
        if self.refusal:
            await self._offer(worker.state.total_resources["ashlar"])

    def measure(self, block, expected):
        """The results of one block."""
        said = {"refused": self.refusal} if self.refusal else self._ask({"experiment": self.experiment, "block": block, "expected": expected})
        if "refused" in said:
            self.refusal = said["refused"]
            sync(self.worker.loop, self._offer, 0)
        return {**said, "machine": self._machine(), "address": self.worker.contact_address}

    def _lay_out(self, archive, folder):
        """Every worker has copies of its own, since a program may change what it is given. Dask removes its folder if it dies. Returns why
        this machine cannot measure, as far as can be seen before anything runs."""
        if platform.system() != "Linux":
            return f"it is {platform.system()}; the lab measures on Linux"
        if unfit := next(filter(None, (_unlike(name, digest) for name, digest in self.there.items())), ""):
            return unfit
        self.root = os.path.realpath(tempfile.mkdtemp(prefix=f"{self.name}-", dir=folder))
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            tar.extraction_filter = getattr(tarfile, "data_filter", None)  # owners are not carried over; the first 3.11 have no such filter
            tar.extractall(self.root)
        return ""

    def _ask(self, request):
        """Start the agent for one request, and wait for its answer."""
        environment = {**os.environ, "PYTHONPATH": os.path.join(self.root, "lab")}
        for name in ("DASK_PARENT", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):  # the nanny's, not the machine's
            environment.pop(name, None)
        command = [sys.executable, "-m", "ashlar_lab.measure.cluster.agent"]
        with tempfile.TemporaryFile() as errors, subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
                                                                  env=environment, cwd=self.root, start_new_session=True) as self.agent:
            with contextlib.suppress(BrokenPipeError):
                # Its standard input stays open: the agent ends when that does, should this worker die.
                self.agent.stdin.write(json.dumps(request).encode() + b"\n")
                self.agent.stdin.flush()
            answer, status = self.agent.stdout.read(), self.agent.wait()
            errors.seek(0)
            told = errors.read().decode(errors="replace").strip().splitlines()
        if status:
            raise RuntimeError(f"the lab's process on {self._machine()} ended with status {status}" + (f": {told[-1][:300]}" if told else ""))
        return json.loads(answer)

    def _clear(self):
        if self.agent:
            self.agent.terminate()
            self.agent.wait()
        if self.root:
            shutil.rmtree(self.root, ignore_errors=True)

    async def _offer(self, units):
        """Only the scheduler is told: what it has already given to this worker is still answered."""
        await self.worker.scheduler.set_resources(resources={"ashlar": units}, worker=self.worker.contact_address)

    def _machine(self):
        """The name that the worker was given, else the host's; a number is that of a worker on its host."""
        name, host = self.worker.name, socket.gethostname()
        if isinstance(name, int):
            return f"{host}-{name}" if name else host
        return host if "://" in name else name


def _unlike(name, digest):
    """What is wrong with a file that should be here already; a name without a slash is looked for in PATH."""
    path = name if "/" in name else shutil.which(name)
    if not path or not os.path.isfile(path):
        return f"{name} is not there; install it, or --ship it"
    with open(path, "rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    return "" if found == digest else f"its {name} is another one than here (SHA-256 {found[:12]}, not {digest[:12]}); install the same, or --ship it"


def measure(name, block, expected):
    """The task that is given to a worker."""
    return get_worker().plugins[name].measure(block, expected)


def workers(dask_scheduler=None):
    """Address → (name, units of `ashlar` that it offers), asked of the scheduler itself."""
    return {address: (str(w.name), w.resources.get("ashlar", 0)) for address, w in dask_scheduler.workers.items() if w.status.name in ("running", "paused")}
