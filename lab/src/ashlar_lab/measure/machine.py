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


def _read(path: str) -> str | None:
    with contextlib.suppress(OSError):
        return Path(path).read_text(errors="replace").strip()
    return None


def _chosen(text: str | None) -> str | None:
    found = re.search(r"\[(\w+)\]", text or "")
    return found[1] if found else text


def describe() -> dict[str, object]:
    """The machine as it is now. Values are None where the machine does not tell."""
    cpuinfo, meminfo = _read("/proc/cpuinfo") or "", _read("/proc/meminfo") or ""
    model, memory, swap = re.search(r"model name\s*:\s*(.+)", cpuinfo), re.search(r"MemTotal:\s*(\d+)", meminfo), re.search(r"SwapTotal:\s*(\d+)", meminfo)
    return {
        "architecture": platform.machine(),
        "cpu": model[1].strip() if model else platform.processor() or None,
        "cpus": len(os.sched_getaffinity(0)),
        "memory_gib": round(int(memory[1]) / 2**20) if memory else None,
        "kernel": platform.release(),
        "libc": " ".join(platform.libc_ver()),
        "system": (re.search(r'PRETTY_NAME="?([^"\n]+)', _read("/etc/os-release") or "") or [None, None])[1],
        "hypervisor": "yes" if re.search(r"^flags.*\bhypervisor\b", cpuinfo, re.M) else "no",
        "governor": _read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor") or "unknown: no cpufreq",
        "transparent_huge_pages": _chosen(_read("/sys/kernel/mm/transparent_hugepage/enabled")),
        "aslr": _read("/proc/sys/kernel/randomize_va_space"),
        "swap_kib": int(swap[1]) if swap else 0,
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
