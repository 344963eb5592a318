"""What machine this is: the facts without which a figure means nothing, and the allocators of Debian that it has or gets."""

import contextlib
import os
import platform
import re
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from ashlar.errors import BadInput
from ashlar_lab.variants import BASES, library_file

_VERSION_FLAGS = {"ruby": "-v", "python3": "-V", "python": "-V", "node": "-v", "java": "-version", "go": "version"}


def read(path: str) -> str | None:
    """What a file says; None where there is none."""
    with contextlib.suppress(OSError):
        return Path(path).read_text(errors="replace").strip()
    return None


def _found(pattern: str, path: str) -> str | None:
    found = re.search(pattern, read(path) or "", re.MULTILINE)
    return found[1].strip() if found else None


def available_mib() -> float | None:
    """Memory that programs can have without swapping."""
    kib = _found(r"MemAvailable:\s*(\d+)", "/proc/meminfo")
    return int(kib) / 1024 if kib else None


def describe() -> dict[str, object]:
    """The machine as it is now. Values are None where the machine does not tell."""
    memory_kib, huge_pages = _found(r"MemTotal:\s*(\d+)", "/proc/meminfo"), "/sys/kernel/mm/transparent_hugepage/enabled"
    return {
        "architecture": platform.machine(),
        "cpu": _found(r"model name\s*:\s*(.+)", "/proc/cpuinfo") or platform.processor() or None,
        "cpus": len(os.sched_getaffinity(0)),
        "memory_gib": round(int(memory_kib) / 2**20) if memory_kib else None,
        "kernel": platform.release(),
        "libc": " ".join(platform.libc_ver()),
        "system": _found(r'PRETTY_NAME="?([^"\n]+)', "/etc/os-release"),
        "hypervisor": "yes" if _found(r"^flags.*\b(hypervisor)\b", "/proc/cpuinfo") else "no",
        "governor": read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor") or "unknown: no cpufreq",
        "transparent_huge_pages": _found(r"\[(\w+)\]", huge_pages) or read(huge_pages),
        "aslr": read("/proc/sys/kernel/randomize_va_space"),
        "swap_kib": int(_found(r"SwapTotal:\s*(\d+)", "/proc/meminfo") or 0),
        "load": os.getloadavg()[0],
        "python": platform.python_version(),
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def version_of(executable: str, directory: str | None) -> dict[str, str | None]:
    """The resolved path of an executable and, for runtimes the lab knows, what it says its version is."""
    path = shutil.which(executable if "/" not in executable or not directory else str(Path(directory, executable)))
    flag = _VERSION_FLAGS.get(Path(path or executable).name)
    said = None
    if path and flag:
        with contextlib.suppress(OSError, subprocess.SubprocessError, IndexError):
            ran = subprocess.run([path, flag], capture_output=True, text=True, timeout=10)
            said = (ran.stdout or ran.stderr).strip().splitlines()[0]
    return {"path": os.path.realpath(path) if path else None, "version": said}


def package_of(library: str) -> str | None:
    """The Debian package and version a file belongs to, where dpkg knows."""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        owner = subprocess.run(["dpkg-query", "-S", library], capture_output=True, text=True, timeout=20)
        name = owner.stdout.partition(":")[0]
        if name and not owner.returncode:
            version = subprocess.run(["dpkg-query", "-W", "-f=${Version}", name], capture_output=True, text=True, timeout=20)
            return f"{name} {version.stdout.strip()}"
    return None


def install(names: Sequence[str]) -> None:
    """Install the package of every named built-in that is missing."""
    missing = [BASES[n].package for n in names if n in BASES and BASES[n].files and not library_file(BASES[n])]
    if not missing:
        return
    command = ["apt-get", "install", "-y", "--no-install-recommends", *missing]
    if os.geteuid() != 0:
        raise BadInput(f"--install needs root; run: {' '.join(command)}")
    ran = subprocess.run(command, capture_output=True, text=True)
    if ran.returncode:
        raise BadInput(f"{' '.join(command)} failed: {(ran.stderr.strip().splitlines() or ['no message'])[-1]}; run apt-get update first")
