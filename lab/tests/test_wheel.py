"""What `pip install ./lab` installs: `ashlar-lab`, and of `ashlar` the modules that it uses."""

import shutil
import subprocess
import sys
import zipfile

import pytest
from conftest import CLONE

pytest.importorskip("setuptools", reason="what builds the lab is not installed; scripts/lab/setup.sh installs it")
# Imports all modules of a package that lies below the folder.
IMPORTED = """
import importlib, pkgutil, sys
sys.path.insert(0, {folder!r})
import ashlar, ashlar_lab
assert ashlar.__file__.startswith({folder!r}) and ashlar_lab.__file__.startswith({folder!r})
for found in pkgutil.walk_packages(ashlar_lab.__path__, "ashlar_lab."):
    if not found.name.endswith("__main__"):
        importlib.import_module(found.name)
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The files of the wheel, unpacked."""
    folder = tmp_path_factory.mktemp("lab")
    shutil.copytree(CLONE / "lab/src", folder / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(CLONE / "lab" / name, folder)
    build = "from setuptools.build_meta import build_wheel; build_wheel('.')"
    subprocess.run([sys.executable, "-c", build], cwd=folder, check=True, capture_output=True, timeout=120)
    (wheel,) = folder.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(folder / "installed")
    return folder / "installed"


def test_it_has_the_lab_and_leaves_out_what_only_ashlar_needs(installed):
    assert {path.name for path in (installed / "ashlar").iterdir() if path.is_dir()} == {"memory"}
    (scripts,) = installed.glob("*.dist-info/entry_points.txt")
    assert scripts.read_text().split() == ["[console_scripts]", "ashlar-lab", "=", "ashlar_lab.cli:main"]
    for name in ("ashlar/page.css", "ashlar/memory/launcher.c", "ashlar_lab/measure/load.c"):
        assert (installed / name).read_bytes() == (CLONE / "lab/src" / name).read_bytes()


def test_every_module_of_the_lab_finds_what_it_imports(installed):
    pytest.importorskip("distributed", reason="the extra 'cluster' is not installed; scripts/lab/setup.sh installs it")
    done = subprocess.run([sys.executable, "-I", "-c", IMPORTED.format(folder=str(installed))], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert {path.relative_to(installed) for path in installed.glob("ashlar_lab/**/*.py")} == {
        path.relative_to(CLONE / "lab/src") for path in (CLONE / "lab/src").glob("ashlar_lab/**/*.py")}
