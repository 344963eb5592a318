"""The forms of a report, each a file or some."""

from collections.abc import Sequence
from pathlib import Path

from ashlar import files, palette
from ashlar.errors import BadInput
from ashlar.files import put
from ashlar_lab.report import exports, html, markdown, record
from ashlar_lab.report.page import Page

_TEXTS = {"html": {".html": html.render}, "md": {".md": markdown.render}, "csv": {".csv": exports.runs_csv}, "json": {".json": exports.analysis_json},
          "record": {".md": markdown.record, ".json": record.as_json, ".csv": record.as_csv}}


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
        if form in _TEXTS:
            written += [put(base.with_name(base.name + suffix), make(page)) for suffix, make in _TEXTS[form].items()]
        else:
            draw = svg_file if form == "svg" else png_file
            written += [put(base.with_name(f"{base.name}-{f.name}.{form}"), draw(f.chart)) for f in page.figures]
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
