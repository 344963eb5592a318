#!/usr/bin/env python3
"""Whether what the documents and the code point to exists, and no merge has left marks.

    scripts/test/links.py

Looks at every file of the repository: each relative link of a Markdown file leads to a file or folder, and to a heading of it if
it names one; each path of docs/ that any file names, in a comment for example, is one that exists.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

FENCED = re.compile(r"^(```|~~~).*?^\1", re.M | re.S)
LINK = re.compile(r"""\]\(\s*([^)\s]+)(?:\s+"[^"]*")?\s*\)|^\[[^\]]+\]:\s+(\S+)|(?:src|srcset|href)="([^"]+)\"""", re.M)
ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:|//")
NAMED = re.compile(r"(?<![\w/.-])(?:\.\./)*(docs/[\w./-]+?\.md)\b(?:#([\w-]+))?")
MARK = re.compile(r"^(?:<{7}|>{7}) \S+", re.M)
HEADING = re.compile(r"^#{1,6} +(.*?) *#*$", re.M)


def without_code(text: str) -> str:
    """The text with its fenced blocks blank, all else in its place."""
    return FENCED.sub(lambda block: re.sub(r"[^\n]", " ", block[0]), text)


def anchors(document: Path) -> set[str]:
    """The names by which the headings of a document are linked, as GitHub makes them."""
    found: set[str] = set()
    for heading in HEADING.findall(without_code(document.read_text())):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        name = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        number = 0
        while (numbered := f"{name}-{number}" if number else name) in found:
            number += 1
        found.add(numbered)
    return found


def wrong(target: Path, anchor: str) -> str:
    """What is wrong with a link to an anchor of a file, or nothing."""
    if not target.exists():
        return "does not exist"
    if anchor and target.suffix == ".md" and anchor not in anchors(target):
        return "has no such heading"
    return ""


def faults(file: Path, text: str) -> Iterator[tuple[int, str, str]]:
    """The place in the text, the target and what is wrong with it, of each link and name that leads nowhere."""
    if file.suffix == ".md":
        for match in LINK.finditer(without_code(text)):
            link = match[1] or match[2] or match[3]
            if ELSEWHERE.match(link):
                continue
            path, _, anchor = link.partition("#")
            if reason := wrong(file.parent / path if path else file, anchor):
                yield match.start(), link, reason
    for match in NAMED.finditer(text):
        if reason := wrong(Path(match[1]), match[2] or ""):
            yield match.start(), match[0], reason
    for match in MARK.finditer(text):
        yield match.start(), match[0], "is left of a merge"


def listed() -> list[str]:
    """The names of the repository's files. Ends with one line where git does not tell them."""
    try:
        told = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], capture_output=True, text=True)
    except OSError as error:
        sys.exit(f"links: git cannot be run: {error.strerror}; it says which files there are.")
    if told.returncode:
        sys.exit(f"links: git does not say which files there are: {told.stderr.strip().partition(chr(10))[0]}")
    return sorted(set(filter(None, told.stdout.split("\0"))))


def main() -> int:
    found = 0
    for name in listed():
        file = Path(name)
        if not file.is_file() or file.is_symlink():
            continue
        try:
            text = file.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        for place, target, reason in faults(file, text):
            found += 1
            print(f"links: {name}:{text.count(chr(10), 0, place) + 1}: {target} {reason}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
