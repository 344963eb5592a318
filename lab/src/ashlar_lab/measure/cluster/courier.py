"""What runs inside a worker of the cluster: keeps files, lays them out, starts the agent and passes on what it says.

A worker need not have the lab installed, so these functions travel by value, and this file imports nothing but Python's
library. The lab itself is among the files that are kept and laid out.
"""

import contextlib
import hashlib
import os
import platform
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import zlib
from pathlib import Path

_LINE_MAX = 64 << 20


def cache():
    """The lab's folder in this machine's cache."""
    chosen = os.environ.get("ASHLAR_CACHE")
    base = Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ashlar"
    return base / "lab"


def facts():
    """What tells workers apart before anything has travelled: who they are, and on which running kernel."""
    try:
        kernel = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        kernel = ""
    return {"host": socket.gethostname(), "kernel": kernel, "system": platform.system(), "architecture": platform.machine(),
            "python": list(sys.version_info[:2])}


def lacking(digests):
    """Which of these contents are not kept here."""
    return [d for d in digests if not (cache() / "contents" / d).exists()]


def keep(digest, piece, last, data):
    """Add one piece of a content; after the last one the whole must have the digest it came under."""
    folder = cache() / "contents"
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / f".{digest}.{os.getpid()}"
    with partial.open("wb" if piece == 0 else "ab") as file:
        file.write(zlib.decompress(data))
    if last:
        with partial.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != digest:
            partial.unlink()
            raise OSError(f"a file arrived damaged (SHA-256 {found[:12]}, not {digest[:12]})")
        partial.replace(folder / digest)
    return True


def lay_out(session, manifest):
    """Make the folder of a session from kept contents: (relative path, digest, mode) each. Every session has copies of
    its own, since a program may change what it is given, and so has every worker. Returns the folder."""
    (cache() / "sessions").mkdir(parents=True, exist_ok=True)
    root = Path(tempfile.mkdtemp(prefix=f"{session}-", dir=cache() / "sessions"))
    for relative, digest, mode in manifest:
        path = root / relative
        if digest is None:
            path.mkdir(parents=True, exist_ok=True)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(cache() / "contents" / digest, path)
        path.chmod(mode)
    return str(root)


def digests_of(names):
    """SHA-256 of files that should be here already, by name; None for what is not there. A name without a slash is looked
    for in PATH."""
    found = {}
    for name in names:
        path = name if "/" in name else shutil.which(name)
        try:
            with open(path, "rb") as file:
                found[name] = hashlib.file_digest(file, "sha256").hexdigest()
        except (OSError, TypeError):
            found[name] = None
    return found


def claim(dask_worker=None):
    """Declare the resource that the lab's work asks for, one unit: one program at a time."""
    return dask_worker.set_resources(ashlar=1)


def work(session, root, task, topic, request):
    """Run the agent for one request and pass on each of its lines as an event. Returns the number of lines and how it ended."""
    from distributed import get_worker

    worker = get_worker()
    running = sys.__dict__.setdefault("_ashlar_agents", {})
    environment = {**os.environ, "PYTHONPATH": os.path.join(root, "lab"), "PYTHONUNBUFFERED": "1", "ASHLAR_CACHE": str(cache().parent)}
    for name in ("DASK_PARENT", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):  # the nanny's, not the machine's
        environment.pop(name, None)
    agent = subprocess.Popen([sys.executable, "-m", "ashlar_lab.measure.cluster.agent"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, env=environment, cwd=root, start_new_session=True)
    running[session] = agent
    said = []
    reader = threading.Thread(target=lambda: said.append(agent.stderr.read()[-4000:]), daemon=True)
    reader.start()
    lines = 0
    try:
        with contextlib.suppress(BrokenPipeError):
            # Its standard input stays open: the agent ends when that does, should this worker die.
            agent.stdin.write(request.encode() + b"\n")
            agent.stdin.flush()
        for line in iter(lambda: agent.stdout.readline(_LINE_MAX), b""):
            worker.log_event(topic, {"task": task, "line": zlib.compress(line)})
            lines += 1
        status = agent.wait()
    finally:
        running.pop(session, None)
        if agent.poll() is None:
            agent.send_signal(signal.SIGTERM)
        with contextlib.suppress(BrokenPipeError):
            agent.stdin.close()
        agent.wait()
        reader.join(timeout=5)
    return {"lines": lines, "status": status, "said": b"".join(said).decode(errors="replace")}


def halt(session):
    """Tell the agent of a session to stop its program and end."""
    agent = sys.__dict__.get("_ashlar_agents", {}).get(session)
    if agent and agent.poll() is None:
        agent.send_signal(signal.SIGTERM)
    return bool(agent)


def tidy(session):
    """Remove a session's folders."""
    for root in (cache() / "sessions").glob(f"{session}-*"):
        shutil.rmtree(root, ignore_errors=True)


def alive(dask_scheduler=None):
    """Address → (name, resources) of the workers that the scheduler knows, asked of the scheduler itself."""
    return {address: (str(w.name), dict(w.resources)) for address, w in dask_scheduler.workers.items() if w.status.name == "running"}
