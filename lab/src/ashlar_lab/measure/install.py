"""Install allocators that Debian packages, when asked to and allowed to."""

import os
import subprocess
from collections.abc import Sequence

from ashlar.errors import BadInput
from ashlar_lab.variants import BASES, library_file


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
