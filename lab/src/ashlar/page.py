"""The pages' one shell: self-contained, no request leaves it, light and dark, narrow and wide. Text goes in through `xml`; what is called
HTML here is a page's own."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from ashlar.said import xml
from ashlar.tables import Table

_STYLE = Path(__file__).with_name("page.css")


def page(title: str, parts: Iterable[str], *, style: str = "", below_title: str = "") -> str:
    """`parts` are HTML, `style` is what this page's CSS has beside that of all."""
    body = "\n".join(part for part in parts if part)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{xml(title)}</title>
<style>{_STYLE.read_text()}
{style}</style>
</head>
<body>
<main>
<header>
<h1>{xml(title)}</h1>
{below_title}</header>
{body}
</main>
</body>
</html>
"""


def facts(sentences: Iterable[str]) -> str:
    return "".join(f'<p class="facts">{xml(s)}</p>\n' for s in sentences if s)


def verdict(sentences: Sequence[str], title: str = "In short") -> str:
    return _listed("verdict", title, sentences)


def warnings(sentences: Sequence[str]) -> str:
    return _listed("warnings", "Before you believe it", sentences)


def _listed(kind: str, title: str, sentences: Sequence[str]) -> str:
    items = "\n".join(f"<li>{xml(s)}</li>" for s in sentences)
    return f'<section class="{kind}" aria-label="{title}">\n<h2>{title}</h2>\n<ul>{items}\n</ul>\n</section>' if items else ""


def section(title: str, html: str) -> str:
    return f"<section>\n<h2>{xml(title)}</h2>\n{html}\n</section>"


def figure(drawing: str, caption: str = "", attributes: str = 'class="wide"') -> str:
    below = f"<figcaption>{xml(caption)}</figcaption>" if caption else ""
    return f'<figure {attributes}><div class="scroll">{drawing}</div>{below}</figure>'


def table(found: Table) -> str:
    """A section of its own."""
    text = [' class="text"' if i and found.is_text(i) else "" for i in range(len(found.head))]
    head = "".join(f'<th scope="col"{kind}>{xml(c)}</th>' for c, kind in zip(found.head, text))
    rows = "\n".join(f'<tr><th scope="row">{xml(row[0])}</th>' + "".join(f"<td{kind}>{xml(c)}</td>" for c, kind in zip(row[1:], text[1:])) + "</tr>" for row in found.rows)
    drawn = f'<div class="scroll"><table id="{xml(found.name)}">\n<thead><tr>{head}</tr></thead>\n<tbody>{rows}\n</tbody>\n</table></div>\n' if found.rows else ""
    return section(found.title, drawn + facts([found.note]))
