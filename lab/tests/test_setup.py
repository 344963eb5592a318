"""What `scripts/lab/setup.sh` puts into the clone's own environment, which `scripts/lab/ashlar` runs in."""

import os
import subprocess
import tomllib

import pytest
from conftest import CLONE

# In the place of Python and of the environment's Python: makes a folder for the environment, and notes what pip is asked for.
FAKE = """#!/bin/sh
case "$*" in
  "-m venv "*) mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
  "-m pip "*) printf '%s\\n' "$@" >> "$ASHLAR_CACHE/pip"; touch "${0%/*}/ashlar"; chmod +x "${0%/*}/ashlar" ;;
esac
"""


@pytest.fixture
def set_up(tmp_path):
    """Runs the script in a cache of its own, with `lab/pyproject.toml` as it is; returns the distributions that it asks pip for."""
    python = tmp_path / "python"
    python.write_text(FAKE)
    python.chmod(0o755)

    def run(*options):
        asked = tmp_path / "pip"
        asked.unlink(missing_ok=True)
        done = subprocess.run([CLONE / "scripts/lab/setup.sh", *options], capture_output=True, text=True, env={**os.environ, "PYTHON": str(python), "ASHLAR_CACHE": str(tmp_path)})
        assert done.returncode == 0 and done.stdout.strip().endswith("/bin/ashlar"), done.stderr
        if not asked.exists():
            return None
        extras = asked.read_text().splitlines()[-1].removeprefix("lab[").removesuffix("]").split(",")
        known = tomllib.loads((CLONE / "lab/pyproject.toml").read_text())["project"]["optional-dependencies"]
        return {wanted.partition(">=")[0] for extra in extras for wanted in known[extra]}
    return run


def test_the_clones_own_environment_has_what_the_command_can_use(set_up):
    """So that no line of the README ends by naming a package to install."""
    assert {"distributed", "resvg-py"} <= set_up()
    assert set_up() is None, "it is there already"


def test_the_environment_of_the_tests_serves_the_command(set_up):
    assert {"distributed", "resvg-py", "pytest"} <= set_up("--test")
    assert set_up() is None and set_up("--test") is None
