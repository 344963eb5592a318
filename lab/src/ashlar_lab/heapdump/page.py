"""One self-contained page: no request leaves it, light and dark, narrow and wide."""

from __future__ import annotations

from pathlib import Path

import jinja2

from ashlar_lab.heapdump import picture
from ashlar_lab.heapdump.content import Content
from ashlar_lab.report import palette

_STYLE = Path(__file__).parent.parent / "report" / "page.css"


def render(content: Content, map_alone: bool = False) -> str:
    environment = jinja2.Environment(loader=jinja2.FileSystemLoader(Path(__file__).parent), autoescape=True, trim_blocks=True, lstrip_blocks=True)
    heap_map = picture.heap_map(content.blocks) if content.blocks else ""
    return environment.get_template("page.html.j2").render(content=content, style=_STYLE.read_text(), chart_css=palette.css_of_reader(), heap_map=heap_map, map_alone=map_alone,
                                                           tree="" if map_alone else picture.tree_bars(content.tree))
