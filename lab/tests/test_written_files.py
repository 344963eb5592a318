"""Files that are written where others may write, too, and images of processes that others may have made."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import two_variants
from heap_image import busy, publish

from ashlar import files, forms
from ashlar.errors import BadInput
from ashlar.heap import command, image
from ashlar.heap.profile import from_image
from ashlar_lab.store.database import Store

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
NOBODY = 65534


@pytest.fixture
def umask():
    """None: what is made has the mode that it was made with."""
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.fixture
def guessed(monkeypatch):
    """Somebody has guessed the name."""
    monkeypatch.setattr("secrets.token_hex", lambda count: "0" * 2 * count)
    return "0" * 32


def mode(path):
    return stat.S_IMODE(path.lstat().st_mode)


@pytest.mark.parametrize("planted", ["symlink", "dangling", "hard link"])
def test_a_link_at_the_place_is_replaced_and_what_it_leads_to_keeps_its_content(tmp_path, planted):
    other, place = tmp_path / "other", tmp_path / "place.html"
    other.write_text("precious")
    if planted == "hard link":
        place.hardlink_to(other)
    else:
        place.symlink_to(other if planted == "symlink" else tmp_path / "nothing")
    files.put(place, "new")
    assert (other.read_text(), place.read_text(), place.is_symlink()) == ("precious", "new", False)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other", "place.html"]


def test_what_tells_of_a_heap_is_for_its_user_alone_and_the_umask_decides_about_the_rest(tmp_path, umask):
    assert mode(files.put(tmp_path / "report.md", "")) == 0o666
    assert mode(files.put(tmp_path / "private.html", "", private=True)) == 0o600
    (tmp_path / "private.html").chmod(0o666)
    assert mode(files.put(tmp_path / "private.html", "", private=True)) == 0o600


def test_the_forms_of_a_profile_are_for_their_user_alone(tmp_path, umask):
    profile = tmp_path / "a.heap"
    profile.write_bytes(busy().write())
    written = forms.write(from_image(image.read_file(profile)), ["html", "json", "collapsed", "pprof"], command.makers(), str(tmp_path / "a"))
    assert len(written) == 5 and {mode(path) for path in written} == {0o600}


def test_a_link_at_the_unfinished_name_is_not_followed(tmp_path, guessed):
    other = tmp_path / "other"
    other.write_text("precious")
    (tmp_path / f".ashlar-{guessed}.part").symlink_to(other)
    with pytest.raises(BadInput, match="cannot write"):
        files.put(tmp_path / "place", "new")
    assert other.read_text() == "precious" and not (tmp_path / "place").exists()


def test_names_of_unfinished_files_differ(tmp_path):
    made = [files.begin_beside(tmp_path / "place", 0o600) for _ in range(50)]
    for _, descriptor in made:
        os.close(descriptor)
    assert len({path.name for path, _ in made}) == 50


def test_a_store_follows_no_link(tmp_path, guessed):
    other = tmp_path / "other"
    other.write_text("precious")
    (tmp_path / f".ashlar-{guessed}.part").symlink_to(other)
    with pytest.raises(BadInput, match="cannot write the store"):
        Store.create(tmp_path / "a.ashlar", two_variants(), {})
    assert other.read_text() == "precious" and not (tmp_path / "a.ashlar").exists()


@as_root
def test_nothing_is_written_to_a_pipe_of_another_user(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    os.chown(pipe, NOBODY, -1)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with pytest.raises(BadInput, match="a pipe of another user"):
        files.put(pipe, "secret")
    assert os.read(reader, 10) == b""
    os.close(reader)


def test_a_file_that_stands_where_a_pipe_stood_is_not_written_to(tmp_path, monkeypatch):
    (tmp_path / "place").write_text("theirs")
    monkeypatch.setattr(files, "is_device", lambda path: True)  # it was one when that was asked
    with pytest.raises(BadInput, match="cannot write"):
        files.put(tmp_path / "place", "secret")
    assert (tmp_path / "place").read_text() == "theirs"


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_a_descriptor_that_leads_to_a_file_is_written_to_and_the_system_s_link_stays(tmp_path, name):
    """The names are links, and a file in place of /dev/stdout would be everybody's: not tried at the real place where the folder can be written to."""
    written = "import pathlib; from ashlar import files, forms; print('before'); files.put(pathlib.Path(a := %r), 'text'); forms.write(0, ['json'], {'json': {'.json': str}}, a)"
    guard = "from ashlar import files; files.begin_beside = files.os.replace = lambda *_: files.os._exit(7); "
    with (tmp_path / "out").open("wb") as out:
        subprocess.run([sys.executable, "-c", guard + written % name], stdout=out, check=True)
    assert (tmp_path / "out").read_text() == "before\ntext0" and os.path.islink("/dev/stdout")


@pytest.mark.parametrize("name", ["/dev/fd/", "/dev/fd/-1", "/dev/fd/3/4", "/tmp/dev/fd/3", "fd/3", "/dev/stdout.json"])
def test_only_names_of_descriptors_stand_for_one(name):
    assert files.own_descriptor(Path(name)) is None


# ── Images ─────────────────────────────────────────────────────────────────

def test_the_system_tells_the_command_line_of_a_process_whose_image_has_none():
    program = busy()
    program.pid, program.command = os.getpid(), ""
    descriptor = publish(program.write())
    try:
        assert "python" in image.read_process(os.getpid()).command
    finally:
        os.close(descriptor)


def test_an_image_without_bounds_is_not_read():
    program = busy()
    program.pid = os.getpid()
    descriptor = publish(program.write())
    try:
        os.ftruncate(descriptor, 1 << 40)
        with pytest.raises(BadInput, match=f"has {1 << 40} bytes"):
            image.read_process(os.getpid())
    finally:
        os.close(descriptor)


@as_root
def test_an_image_of_another_user_is_not_the_process_s_own():
    program = busy()
    program.pid = os.getpid()
    descriptor = publish(program.write())
    try:
        os.fchown(descriptor, NOBODY, -1)
        with pytest.raises(BadInput, match=f"belongs to user {NOBODY}"):
            image.read_process(os.getpid())
    finally:
        os.close(descriptor)


def test_an_interrupt_while_a_file_is_written_leaves_nothing(tmp_path):
    def pieces():
        yield "half"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        files.put(tmp_path / "page.html", pieces())
    assert not list(tmp_path.iterdir())
