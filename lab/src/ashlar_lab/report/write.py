"""The forms of a report, each a file or some."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ashlar import files, palette
from ashlar.errors import BadInput
from ashlar.files import put
from ashlar_lab.report import FORMS, exports, html, markdown, record
from ashlar_lab.report.page import Page


def forms_of(chosen: Sequence[str]) -> None:
    """Raise BadInput for one that there is not."""
    for form in chosen:
        if form not in FORMS:
            raise BadInput(f"--form has {form!r}; give some of {','.join(FORMS)}")


def check_can_write(base: Path, forms: Sequence[str]) -> None:
    """Raise BadInput before anything is measured if the reports could not be written afterwards."""
    files.check_can_write(base)
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
            for suffix, make in ((".md", markdown.record), (".json", record.as_json), (".csv", record.as_csv)):
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
