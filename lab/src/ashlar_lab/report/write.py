"""Put finished files in place: written whole beside their name, then renamed."""

from __future__ import annotations

import errno
import os
import secrets
import stat
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from ashlar_lab.errors import BadInput
from ashlar_lab.report import exports, html, markdown, palette, record
from ashlar_lab.report.page import Page

FORMS = ("html", "md", "csv", "json", "svg", "png", "record")


def check_can_write(base: Path, forms: Sequence[str]) -> None:
    """Raise BadInput before anything is measured if the reports could not be written afterwards."""
    folder = base.absolute().parent
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        why = "it cannot be written to" if folder.is_dir() else "there is no such folder"
        raise BadInput(f"cannot write reports into {folder}: {why}; name a writable place with --output")
    if "png" in forms:
        _png_maker()


def write(page: Page, base: Path, forms: Sequence[str]) -> list[Path]:
    """Write `base`.html, `base`.md and so on; charts go to `base`-NAME.svg and .png. A record is three small files,
    `base`.md, .json and .csv, in place of the full ones. Returns what was written."""
    written = []
    for form in forms:
        if form == "svg":
            written += [put(_beside(base, f"-{f.name}.svg"), svg_file(f.chart)) for f in page.figures]
        elif form == "png":
            written += [put(_beside(base, f"-{f.name}.png"), png_file(f.chart)) for f in page.figures]
        elif form == "record":
            for suffix, make in ((".md", record.as_markdown), (".json", record.as_json), (".csv", record.as_csv)):
                written.append(put(_beside(base, suffix), make(page)))
        else:
            text = {"html": html.render, "md": markdown.render, "csv": exports.runs_csv, "json": exports.analysis_json}[form](page)
            written.append(put(_beside(base, f".{form}"), text))
    return written


def svg_file(chart) -> str:
    """A stand-alone SVG that follows the reader's light or dark setting."""
    return chart.render(palette.css_of_reader())


def png_file(chart) -> bytes:
    return bytes(_png_maker().svg_to_bytes(svg_string=chart.render(palette.css(palette.LIGHT)), width=chart.width * 2))


def _png_maker():
    try:
        import resvg_py
    except ImportError:
        raise BadInput("PNG needs the package resvg-py; pip install 'ashlar-lab[png]', or leave png out of --form") from None
    return resvg_py


def _beside(base: Path, suffix: str) -> Path:
    return base.with_name(base.name + suffix)


def put(path: Path, content: str | bytes | Iterator[str], private: bool = False) -> Path:
    """In place of a file at once; into a device or a pipe as it is. What is private, because it tells of a program's heap, only this
    user may read. A link that stands at `path` is replaced, not followed."""
    device = is_device(path)
    partial = path
    try:
        if device:
            descriptor = _open_device(path)
        else:
            partial, descriptor = begin_beside(path, 0o600 if private else 0o666)
        with open(descriptor, "wb") as file:
            for piece in (content,) if isinstance(content, (str, bytes)) else content:
                file.write(piece.encode(errors="backslashreplace") if isinstance(piece, str) else piece)
        if not device:
            os.replace(partial, path)
    except OSError as error:
        if partial != path:
            partial.unlink(missing_ok=True)
        raise BadInput(f"cannot write {path}: {error.strerror}; name a writable place with --output") from None
    return path


def begin_beside(path: Path, mode: int) -> tuple[Path, int]:
    """A new file beside `path` under a name that nobody can guess, and so has not put anything at; the umask takes from `mode`."""
    partial = path.with_name(f".ashlar-{secrets.token_hex(16)}.part")
    return partial, os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)


def _open_device(path: Path) -> int:
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    found = os.fstat(descriptor)
    if stat.S_ISFIFO(found.st_mode) and found.st_uid not in (0, os.geteuid()):
        os.close(descriptor)
        raise PermissionError(errno.EPERM, "it is a pipe of another user's")
    return descriptor


def is_device(path: Path) -> bool:
    """Whether something stands there that is neither a file nor a folder."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def to_standard_output(content: str | bytes) -> None:
    """As it is, after what was printed before."""
    sys.stdout.flush()
    sys.stdout.buffer.write(content.encode(errors="backslashreplace") if isinstance(content, str) else content)
    sys.stdout.buffer.flush()
