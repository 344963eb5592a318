"""The cluster, over Dask's own client: who is there, give out a block, wait for the first result.

`tls://HOST:PORT` is a scheduler that runs already; `local:N` is one with N workers within this process, each taken for a machine of its
own, and none of it listens anywhere. A block asks for one unit of the resource `ashlar`, so that a worker measures one program at a time and
only those that were started with `--resources ashlar=1` measure. The rest is Dask's: to hand out blocks, to give the block of
a worker that died to another, and to bring the plug-in with the files to workers that come later.
"""

import contextlib
import logging
import sys
import tempfile
import uuid
import warnings
from collections.abc import Iterator, Mapping

import cloudpickle
import distributed

from ashlar.errors import BadInput
from ashlar_lab.errors import Unfinished
from ashlar_lab.measure.cluster import bench
from ashlar_lab.measure.cluster.parcel import Parcel
from ashlar_lab.measure.cluster.security import in_the_clear, local_count, security_of

_CONNECT_S = 10
# How often a block whose process failed is tried again; that a worker died is counted by the scheduler's `allowed-failures`.
_RETRIES = 3


class Cluster:
    """A connection to a scheduler. Use as a context manager."""

    def __init__(self, address: str, tls: Mapping[str, str] = {}):
        self._address, self._tls = address, tls
        self._name = f"ashlar-{uuid.uuid4().hex[:12]}"
        self._exit = contextlib.ExitStack()
        self._known: set[str] = set()
        self.running: dict[object, int | None] = {}  # future → block

    def __enter__(self) -> "Cluster":
        for name in ("distributed", "distributed.client"):  # Dask gives the second a level of its own
            logging.getLogger(name).setLevel(logging.CRITICAL)
        warnings.filterwarnings("ignore", module="distributed")
        cloudpickle.register_pickle_by_value(bench)
        try:
            with self._exit as entered:
                self._connect(entered)
                self._exit = entered.pop_all()
        except (OSError, ValueError, TypeError, ImportError) as error:
            raise BadInput(f"no Dask scheduler answers at {self._address} ({_first_line(error)}); start one with 'dask scheduler', or try --on local:2") from None
        return self

    def _connect(self, entered: contextlib.ExitStack) -> None:
        target, security = self._address, security_of(self._address, self._tls)
        if target.startswith("local:"):
            folder = entered.enter_context(tempfile.TemporaryDirectory(prefix="ashlar-dask-"))
            target = entered.enter_context(distributed.LocalCluster(
                n_workers=local_count(target), threads_per_worker=1, processes=False, resources={"ashlar": 1}, memory_limit=0, local_directory=folder,
                dashboard_address="127.0.0.1:0", worker_dashboard_address="127.0.0.1:0", silence_logs=logging.CRITICAL))
        self._client = entered.enter_context(distributed.Client(target, timeout=_CONNECT_S, name="ashlar", security=security))

    def __exit__(self, *_) -> None:
        """Stops what runs: Dask takes the plug-in away, which ends its agent and removes its files."""
        with contextlib.suppress(Exception):
            if self._client.status == "running":
                self._client.cancel(list(self.running))
                self._client.unregister_worker_plugin(self._name)
        with contextlib.suppress(Exception):
            self._exit.close()

    def equip(self, parcel: Parcel) -> None:
        """Give every worker, and every one that comes, the files."""
        with self._connected():
            self._refuse_other_pythons()
            self.workers()
            self._client.register_plugin(bench.Bench(self._name, parcel.archive, parcel.there, parcel.experiment))

    def _refuse_other_pythons(self) -> None:
        """Code goes to a worker as Python's own, which another version does not understand."""
        found = self._client.get_versions()
        here = sys.version.split(".")[:2]
        for who, versions in {"the scheduler": found["scheduler"], **found["workers"]}.items():
            python = versions["host"]["python"].split(".")[:2]
            if python != here:
                raise BadInput(f"{who} has Python {'.'.join(python)}, here is {'.'.join(here)}; Dask needs the same on both sides")

    def workers(self) -> dict[str, tuple[str, float]]:
        """Address → (name, units of `ashlar` that it offers) of every worker there is now."""
        with self._connected():
            found = self._client.run_on_scheduler(bench.workers)
        for address in found.keys() - self._known:
            if why := in_the_clear(address):
                raise BadInput(f"the worker {found[address][0]}: {why}; start the scheduler and the workers with TLS (docs/design/lab-machines.md)")
        self._known |= found.keys()
        return found

    def submit(self, block: int | None, expected: dict[str, str]) -> None:
        """Give out one block; with None a machine is only looked at."""
        with self._connected():
            future = self._client.submit(bench.measure, self._name, block, expected, pure=False, resources={"ashlar": 1}, retries=_RETRIES)
        self.running[future] = block

    def finished(self, within_s: float) -> Iterator[tuple[int | None, dict]]:
        """The blocks that are over, with what `Bench.measure` says, as soon as one is."""
        with self._connected(), contextlib.suppress(TimeoutError):
            for future in distributed.wait(list(self.running), timeout=within_s, return_when="FIRST_COMPLETED").done:
                if future.status == "error":
                    raise Unfinished(f"a block could not be measured: {_first_line(future.exception())}")
                said = future.result(timeout=_CONNECT_S)  # where its worker has died meanwhile, Dask runs it again
                yield self.running.pop(future), said

    @contextlib.contextmanager
    def _connected(self):
        """A scheduler that does not answer any more is one line, whatever Dask says to it."""
        try:
            yield
        except (Unfinished, BadInput):
            raise
        except Exception as error:
            # A client that has closed itself fails in whatever it happens to look at.
            if not isinstance(error, (OSError, RuntimeError, distributed.CancelledError)) and self._client.status == "running":
                raise
            raise Unfinished(f"the scheduler at {self._address} is gone") from None


def _first_line(what) -> str:
    return (str(what).strip().splitlines() or [type(what).__name__])[0][:300]
