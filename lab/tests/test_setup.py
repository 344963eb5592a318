"""What `scripts/lab/setup.sh` puts into the clone's own environment, which `scripts/lab/ashlar-lab` runs in."""

import os
import re
import subprocess
import tomllib

import pytest
from conftest import CLONE
from packaging.requirements import Requirement

# In the place of Python and of the environment's Python: makes a folder for the environment, and notes what pip is asked for.
# The files `version` and `interrupted` in the cache say which Python it is, and that making the folder is interrupted before pip is in it.
FAKE = """#!/bin/sh
version=$(cat "$ASHLAR_CACHE/version")
packages=lib/python${version%.*}/site-packages
case "$*" in
  -V) echo "Python $version" ;;
  "-m venv "*)
    for folder; do :; done
    case "$*" in *--clear*) rm -rf "$folder" ;; esac
    mkdir -p "$folder/bin" "$folder/$packages"
    cp "$0" "$folder/bin/python"
    [ ! -e "$ASHLAR_CACHE/interrupted" ] || exit 130
    touch "$folder/$packages/pip" ;;
  "-m pip "*)
    [ -e "${0%/*}/../$packages/pip" ] || { echo "No module named pip" >&2; exit 1; }
    [ "$3" != --version ] || exit 0
    sleep 0.2
    echo "$*" >> "$ASHLAR_CACHE/pip"
    touch "${0%/*}/ashlar-lab"
    chmod +x "${0%/*}/ashlar-lab" ;;
esac
"""


@pytest.fixture
def begin(tmp_path):
    """Begins the script in a cache of its own."""
    python = tmp_path / "python"
    python.write_text(FAKE)
    python.chmod(0o755)
    (tmp_path / "version").write_text("3.11.2")
    environment = {**os.environ, "PYTHON": str(python), "ASHLAR_CACHE": str(tmp_path)}
    return lambda: subprocess.Popen([CLONE / "scripts/lab/setup.sh"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


@pytest.fixture
def set_up(tmp_path, begin):
    """Runs the script, or several at once; returns what they ask pip for."""
    def run(at_once=1):
        asked = tmp_path / "pip"
        asked.unlink(missing_ok=True)
        for begun in [begin() for _ in range(at_once)]:
            out, errors = begun.communicate()
            assert begun.returncode == 0 and out.strip().endswith("/bin/ashlar-lab"), errors
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


def test_an_environment_that_was_interrupted_before_it_had_pip_is_made_anew(tmp_path, begin, set_up):
    (tmp_path / "interrupted").touch()
    begun = begin()
    begun.communicate()
    assert begun.returncode
    (tmp_path / "interrupted").unlink()
    assert len(set_up()) == 2 and set_up() == []


def test_an_environment_of_a_python_that_was_upgraded_is_made_anew(tmp_path, set_up):
    assert set_up()
    (tmp_path / "version").write_text("3.11.9")
    assert set_up() == [], "packages of one series are in one place"
    (tmp_path / "version").write_text("3.12.1")
    assert len(set_up()) == 2 and set_up() == []


def test_one_that_others_wait_for_is_made_once(set_up):
    assert len(set_up(at_once=3)) == 2


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
