"""Text that came from elsewhere, put into a terminal, a page, a picture or Markdown so that it is read as it was written.

Names, labels, file names, messages and what programs print may hold whatever a name can hold: `list [small]`, `<b>`, a control
sequence, a byte that is no UTF-8. Each form has one door here, and what a door returns is text and nothing else in that form.
"""

import html
import re
import sys

# What acts on a terminal or on the order of letters in place of being seen, what is no character, and what XML forbids.
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")


def visible(text: str) -> str:
    """The text with its control characters written out as Python writes them; new lines and tabs stay."""
    return _UNSEEN.sub(lambda found: ascii(found[0])[1:-1], text)


def one_line(text: str) -> str:
    """The same without new lines and tabs."""
    return visible(" ".join(re.split(r"[\n\t]+", text.strip())))


# ── Plain output ───────────────────────────────────────────────────────────────

def say(text: str = "", *, error: bool = False, end: str = "\n", flush: bool = False, raw: bool = False) -> None:
    """Print to standard output, or with `error` to standard error. A letter that the output's encoding lacks is written out. What is `raw` has
    colours of our own in it, and went through a door part by part."""
    out = sys.stderr if error else sys.stdout
    encoding = out.encoding or "utf-8"
    print((text if raw else visible(text)).encode(encoding, "backslashreplace").decode(encoding), file=out, end=end, flush=flush)


# ── Pages and pictures ─────────────────────────────────────────────────────

def xml(text: str) -> str:
    """Inside an element or an attribute of HTML or SVG."""
    return html.escape(visible(text))


# ── Markdown ───────────────────────────────────────────────────────────────

# Only what would mean something is escaped, so that Markdown stays readable as it is: an underscore inside a word means nothing.
_MEANS = re.compile(r"""
    \\(?=[!-/:-@\[-`{-~]) | [`~] | (?<!\s)\*|\*(?!\s) | (?<![^\W_])_|_(?![^\W_])    # an escape, code, emphasis
    | <(?=[A-Za-z/!?]) | &(?=\#?\w+;)                                               # HTML and its entities
    | \](?=[(\[:])                                                                  # a link, a reference and its definition
    """, re.VERBOSE)
_MEANS_FIRST = re.compile(r"(\d{0,9})(?=[.)](?:\s|$))|(?=[#>]|[-+](?:[\s-]|$)|\[[ xX]\])")  # headings, quotations, lists, boxes to tick


def markdown(text: str) -> str:
    """A line of Markdown: a heading, an item of a list, a paragraph."""
    inside = _inside(text)
    found = _MEANS_FIRST.match(inside)
    return f"{inside[:found.end()]}\\{inside[found.end():]}" if found else inside


def markdown_cell(text: str) -> str:
    """A cell of a table of Markdown."""
    return _inside(text).replace("|", "\\|")


def _inside(text: str) -> str:
    return _MEANS.sub(lambda found: "\\" + found[0], one_line(text))
