"""A memory control group around one run, where the machine lets us make one."""

import contextlib
import os
import tempfile
from pathlib import Path


class MemoryGroup:
    """A child cgroup of version 2 or 1. `reason` says why there is none."""

    def __init__(self) -> None:
        self.path: Path | None = None
        self.peak_file = ""
        self.reason = "no cgroup file system is mounted"
        for parent, peak_file in _places():
            try:
                path = Path(tempfile.mkdtemp(prefix="ashlar-lab-", dir=parent))
            except OSError as error:
                self.reason = f"cannot create a group under {parent}: {error.strerror}"
                continue
            if (path / peak_file).exists() and os.access(path / "cgroup.procs", os.W_OK):
                self.path, self.peak_file, self.reason = path, peak_file, ""
                return
            self.reason = f"{parent} offers no {peak_file}"
            path.rmdir()

    @property
    def entry(self) -> str | None:
        """The file a process writes to in order to enter."""
        return str(self.path / "cgroup.procs") if self.path else None

    def close(self) -> float | None:
        """Peak memory in MiB of everything charged to the group, page cache included; the group is removed."""
        if not self.path:
            return None
        peak = None
        with contextlib.suppress(OSError, ValueError):
            peak = int((self.path / self.peak_file).read_text()) / 2**20
        with contextlib.suppress(OSError):  # a process that left the session may still be dying; an empty group costs nothing
            self.path.rmdir()
        self.path = None
        return peak


def _places():
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        number, controllers, own = line.split(":", 2)
        if number == "0" and not controllers:
            for root in ("/sys/fs/cgroup", "/sys/fs/cgroup/unified"):
                controllers_file = Path(root + own) / "cgroup.controllers"
                if controllers_file.exists() and "memory" in controllers_file.read_text().split():
                    yield Path(root + own), "memory.peak"
        elif "memory" in controllers.split(","):
            yield Path("/sys/fs/cgroup/memory" + own), "memory.max_usage_in_bytes"
