#!/usr/bin/env python3
"""Draws what servers that fork take on each Ruby, from a recorded run: the picture of the README.

    scripts/bench/picture.py            writes docs/forked-servers.svg
    scripts/bench/picture.py --check    is it what the record says?

A record is two files that `make bench-applications` leaves: the ratios with their intervals are in the tables of the .md,
the means in the .json. Each variant that the record has gets bars of its own.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "lab/src"))

from ashlar import palette  # noqa: E402
from ashlar.said import xml  # noqa: E402

RECORD = TOP / "bench/results/2026-11-29-x86_64-amd-2cpus-ruby-4.0.5/forked"
PICTURE = TOP / "docs/forked-servers.svg"
PROGRAMS = {"redmine-forked": "Redmine", "forked-site": "a small site"}
VARIANTS = {"stock": "stock Ruby", "stock-jemalloc": "with jemalloc", "inside": "Ashlar"}
PANELS = (("Settled memory", "settled_mib", "MiB", "Memory of all five processes (PSS)"), ("CPU time", "cpu_s", "s", "CPU time"))
LABELS, PANEL, BAR, ROW, TOP_ROWS = 122, 332, 138, 22, 62  # user units of the SVG: one per CSS pixel at full width

Ratio = tuple[float, str, float, float]


def ratios(record: str, table: str) -> dict[tuple[str, str], Ratio]:
    """Of each program and variant: the ratio to stock, the text of it, and the ends of its interval."""
    section = re.search(rf"^## {re.escape(table)} \(\w+\): ratio to stock\n\n(.*?)\n\n", record, re.M | re.S)
    if not section:
        sys.exit(f"picture: {RECORD}.md has no table of ratios of {table!r}; name a record that has it")
    head, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in section[1].splitlines())
    found: dict[tuple[str, str], Ratio] = {}
    for program, *cells in rows:
        for variant, cell in zip(head[1:], cells):
            if numbers := re.fullmatch(r"([\d.]+) \[([\d.]+), ([\d.]+)\]", cell):
                value, low, high = map(float, numbers.groups())
                found[program, variant] = value, f"{value:.2f} [{low:.2f}, {high:.2f}]", low, high
    return found


def draw(tables: dict[str, dict[tuple[str, str], Ratio]], means: dict[tuple[str, str, str], float], under: list[str]) -> str:
    """The SVG: a row for each program and variant, a panel for each figure. Bars are shares of stock's."""
    width, y = LABELS + len(PANELS) * PANEL, TOP_ROWS
    parts = []
    for number, (*_, title) in enumerate(PANELS):
        parts.append(f'<text class="ink" font-weight="600" x="{LABELS + number * PANEL}" y="40">{xml(title)}</text>')
    for program, name in PROGRAMS.items():
        parts.append(f'<text class="ink" font-weight="600" x="8" y="{y + 4}">{xml(name)}</text>')
        for variant, label in VARIANTS.items():
            if (program, variant, PANELS[0][1]) not in means:
                continue
            y += ROW
            series = list(VARIANTS).index(variant)
            parts.append(f'<text class="soft" x="8" y="{y + 4}">{xml(label)}</text>')
            for number, (table, metric, unit, _) in enumerate(PANELS):
                left = LABELS + number * PANEL
                value, text, low, high = tables[table].get((program, variant), (1.0, "", 1.0, 1.0))
                mean = means[program, variant, metric]
                bar = left + BAR * value
                parts.append(f'<rect class="s{series}" fill-opacity=".75" stroke="none" style="stroke:none" x="{left}" y="{y - 7}" '
                             f'width="{BAR * value:.1f}" height="14"/>')
                if high > low:
                    parts.append(f'<path class="axis" d="M{left + BAR * low:.1f} {y}H{left + BAR * high:.1f}" stroke-width="2"/>')
                said = f"{mean:.3g} {unit}" + (f" · {text}" if text else "")
                parts.append(f'<text class="ink" font-size="11" x="{max(bar, left + BAR * high) + 6:.1f}" y="{y + 4}">{xml(said)}</text>')
        y += ROW + 8
    for line in under:
        parts.append(f'<text class="soft" font-size="11" x="8" y="{y}">{xml(line)}</text>')
        y += 16
    height, title = y - 4, "Servers with four forked workers: share of what stock Ruby takes; less is better"
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="{xml(title)}" font-size="12" '
            f'font-family="DejaVu Sans, Liberation Sans, Arial, sans-serif"><style>{palette.css_of_reader()}</style>'
            f'<rect class="paper" width="{width}" height="{height}"/><text class="ink" font-size="14" font-weight="600" x="8" y="18">{xml(title)}</text>'
            + "".join(parts) + "</svg>\n")


def main() -> int:
    written = RECORD.with_suffix(".md").read_text()
    tables = {table: ratios(written, table) for table, *_ in PANELS}
    values = json.loads(RECORD.with_suffix(".json").read_text())["values"]
    means = {(value["program"], value["variant"], value["metric"]): value["mean"] for value in values}
    blocks = re.search(r"(\d+) blocks", written)[1]
    under = [f"Brackets and thin lines: 95 % interval of {blocks} blocks. An interval that contains 1 shows no difference.",
             f"Ruby 4.0.5. Record: {RECORD.relative_to(TOP)}.md"]
    picture = draw(tables, means, under)
    if "--check" not in sys.argv[1:]:
        PICTURE.write_text(picture)
    elif PICTURE.read_text() != picture:
        print(f"picture: {PICTURE.relative_to(TOP)} is not what {RECORD.relative_to(TOP)}.md says; run scripts/bench/picture.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
