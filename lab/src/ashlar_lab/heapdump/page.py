"""One self-contained page: no request leaves it, light and dark, narrow and wide."""

from __future__ import annotations

from pathlib import Path

from ashlar_lab import said
from ashlar_lab.heapdump import picture
from ashlar_lab.heapdump.content import Content
from ashlar_lab.report import palette

_STYLE = Path(__file__).parent.parent / "report" / "page.css"


def render(content: Content, map_alone: bool = False) -> str:
    environment = said.pages(Path(__file__).parent)
    heap_map = picture.heap_map(content.blocks) if content.blocks else ""
    return environment.get_template("page.html.j2").render(content=content, style=_STYLE.read_text(), chart_css=palette.css_of_reader(), heap_map=heap_map, map_alone=map_alone,
                                                           tree="" if map_alone else picture.tree_bars(content.tree))
