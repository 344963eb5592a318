"""Each run finds the pages of its program in other places of memory."""

import errno
import fcntl
import mmap
import os
import random
import shutil
import struct
import sys
from pathlib import Path

import pytest

from ashlar_lab.measure import pages

_PFN = (1 << 55) - 1


def frames(path: Path) -> list[int]:
    """The physical pages of a file; zeros for who may not know them."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ, flags=mmap.MAP_SHARED) as mapped:
        count = len(mapped) // mmap.PAGESIZE
        assert sum(mapped[page * mmap.PAGESIZE] for page in range(count)) >= 0  # fetches them
        start = next(int(line.split("-")[0], 16) for line in Path("/proc/self/maps").read_text().splitlines() if line.endswith(str(path)))
        with open("/proc/self/pagemap", "rb", buffering=0) as pagemap:
            pagemap.seek(start // mmap.PAGESIZE * 8)
            return [entry & _PFN for entry in struct.unpack(f"{count}Q", pagemap.read(8 * count))]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root is told where pages lie")
def test_pages_lie_elsewhere_afterwards_and_the_file_is_the_same():
    copy = Path(__file__).with_name("program.copy")  # not in /tmp, which may be in memory
    try:
        shutil.copy(os.path.realpath(sys.executable), copy)
        content, before = copy.read_bytes(), frames(copy)
        if not any(before):
            pytest.skip("the system does not tell where pages lie, though this is root")
        with pages.renewed([copy], random.Random(1)):
            after = frames(copy)
        assert copy.read_bytes() == content
        assert sum(a != b for a, b in zip(before, after)) > len(before) / 2
    finally:
        copy.unlink(missing_ok=True)


def test_a_command_names_its_program_and_those_that_are_words_of_it_but_no_scripts(tmp_path):
    script, own = tmp_path / "start.sh", tmp_path / "own"
    script.write_text("#!/bin/sh\n")
    own.write_bytes(b"\x7fELF...")
    own.chmod(0o755)
    found = pages.programs(["./start.sh", "1", str(own), "./own", "own", "no/such"], "/nowhere", str(tmp_path))
    assert found == [own]
    assert pages.programs(["own", "own"], f"/nowhere:{tmp_path}", None) == [own]
    assert pages.programs(["./own"], "", str(tmp_path)) == [own]


def test_a_file_of_a_run_that_goes_on_keeps_its_pages(tmp_path, monkeypatch):
    dropped = []
    monkeypatch.setattr(os, "posix_fadvise", lambda *_: dropped.append(1))
    (tmp_path / "own").write_bytes(b"\x7fELF...")
    with pages.renewed([tmp_path / "own"], random.Random(1)):
        assert len(dropped) == 1
        with pages.renewed([tmp_path / "own"], random.Random(2)):
            assert len(dropped) == 1
        with pages.renewed([tmp_path / "own"], random.Random(3)):  # the first still goes on
            assert len(dropped) == 1
    with pages.renewed([tmp_path / "own"], random.Random(4)):
        assert len(dropped) == 2


def test_a_file_whose_pages_cannot_be_renewed_keeps_no_other_run_waiting(tmp_path, monkeypatch):
    def refused(_):
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    monkeypatch.setattr(os, "fsync", refused)
    (tmp_path / "own").write_bytes(b"\x7fELF...")
    with pages.renewed([tmp_path / "own"], random.Random(1)), (tmp_path / "own").open() as other:
        fcntl.flock(other, fcntl.LOCK_SH | fcntl.LOCK_NB)


def test_what_cannot_be_read_is_left_alone(tmp_path):
    with pages.renewed([tmp_path / "gone"], random.Random(1)):
        pass
