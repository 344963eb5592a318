"""What `scripts/lab/setup.sh` puts into the clone's own environment, which `scripts/lab/ashlar-lab` runs in."""

import os
import re
import subprocess
import tomllib

import pytest
from conftest import CLONE
from packaging.requirements import Requirement

# In the place of Python and of the environment's Python: makes a folder for the environment, and notes what pip is asked for.
FAKE = """#!/bin/sh
case "$*" in
  "-m venv "*) mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
  "-m pip "*) echo "$*" >> "$ASHLAR_CACHE/pip"; touch "${0%/*}/ashlar-lab"; chmod +x "${0%/*}/ashlar-lab" ;;
esac
"""


@pytest.fixture
def set_up(tmp_path):
    """Runs the script in a cache of its own; returns what it asks pip for."""
    python = tmp_path / "python"
    python.write_text(FAKE)
    python.chmod(0o755)

    def run():
        asked = tmp_path / "pip"
        asked.unlink(missing_ok=True)
        done = subprocess.run([CLONE / "scripts/lab/setup.sh"], capture_output=True, text=True, env={**os.environ, "PYTHON": str(python), "ASHLAR_CACHE": str(tmp_path)})
        assert done.returncode == 0 and done.stdout.strip().endswith("/bin/ashlar-lab"), done.stderr
        return asked.read_text().splitlines() if asked.exists() else []
    return run


@pytest.fixture
def locked():
    """The hashes of what is installed, by requirement."""
    found = {}
    for line in (CLONE / "lab/requirements.txt").read_text().replace("\\\n", " ").splitlines():
        wanted, *hashes = line.split(" --hash=")
        if not line.startswith("#"):
            found[Requirement(wanted)] = [hash.strip() for hash in hashes]
    return found


def test_whatever_pip_fetches_it_compares_with_a_hash(set_up):
    fetching = [asked for asked in set_up() if not {"--no-deps", "--no-build-isolation"} <= set(asked.split())]
    assert len(fetching) == 1 and "--require-hashes --requirement lab/requirements.txt" in fetching[0]
    assert set_up() == [], "it is there already"


def test_each_package_has_one_version_and_hashes(locked):
    assert len({wanted.name for wanted in locked}) == len(locked) > 30
    for wanted, hashes in locked.items():
        assert [part.operator for part in wanted.specifier] == ["=="], wanted
        assert hashes and all(re.fullmatch("sha256:[0-9a-f]{64}", hash) for hash in hashes), wanted


def test_the_clones_own_environment_has_what_the_command_its_tests_and_its_build_can_use(locked):
    """So that no line of the README ends by naming a package to install."""
    made_of = tomllib.loads((CLONE / "lab/pyproject.toml").read_text())
    project, versions = made_of["project"], {wanted.name: next(iter(wanted.specifier)).version for wanted in locked}
    for text in [*project["dependencies"], *sum(project["optional-dependencies"].values(), []), *made_of["build-system"]["requires"]]:
        wanted = Requirement(text)
        assert wanted.specifier.contains(versions[wanted.name]), f"{text}: run scripts/lab/lock.sh"
