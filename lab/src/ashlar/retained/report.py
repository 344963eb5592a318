"""What a dump says, as a page, as Markdown and as JSON."""

import json

from ashlar import amounts, page, palette
from ashlar.bars import Bar, draw
from ashlar.retained import picture
from ashlar.retained.content import Content, share
from ashlar.said import markdown as line
from ashlar.tables import table_text


def html(content: Content, map_alone: bool = False) -> str:
    parts, tree, blocks = [page.warnings(content.warnings)], content.told["tree"], content.told["blocks"]
    if not map_alone:
        bars = page.figure(draw(_bar(tree, tree["retained_bytes"]), "Dominator tree"),
                           "The dominator tree. Each bar is kept by the one above it, and is as wide as what it retains; point at a bar to read it.")
        parts = [page.verdict(content.verdict), *parts, *map(page.table, content.asked), page.section("What keeps what", bars), *map(page.table, content.tables)]
    if blocks:
        parts.append(page.section("Map of the heap", page.figure(picture.heap_map(blocks))))
    return page.page(content.title, parts, style=palette.css_of_reader(), below_title=page.facts([content.facts]))


def _bar(branch: dict, whole: float) -> Bar:
    told = (f"{branch['label']}: {branch['objects']:,} object{'s' if branch['objects'] != 1 else ''}, {amounts.memory(branch['retained_bytes'])} retained "
            f"({share(branch['retained_bytes'], whole)}), {amounts.memory(branch['shallow_bytes'])} of their own")
    return Bar(f"{branch['label']} {amounts.memory(branch['retained_bytes'])}", told, branch["retained_bytes"], [_bar(below, whole) for below in branch["below"]])


def markdown(content: Content) -> str:
    parts = [f"# {line(content.title)}", line(content.facts), "\n".join(f"- {line(s)}" for s in content.verdict), *(f"warning: {line(w)}" for w in content.warnings)]
    for table in (*content.asked, *content.tables):
        parts += [f"## {line(table.title)}", table_text(table) if table.rows else "", line(table.note)]
    return "\n\n".join(part for part in parts if part) + "\n"


def as_json(content: Content) -> str:
    """What the program that reads dumps said, without the map."""
    return json.dumps({key: value for key, value in content.told.items() if key != "blocks"}, indent=1) + "\n"
