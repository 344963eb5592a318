#!/usr/bin/env python3
"""Whether the files of each crate use each other as the crate's floors say.

    scripts/test/layers.py                 all crates of the workspace
    scripts/test/layers.py crates/heap     one of them
    scripts/test/layers.py --show ruby     what each of its modules uses, and its circles

A crate's layers.txt names its modules, one floor a line, the lowest first; a module stands for those
in it that are not named themselves. A module may use what is on its own floor or below, and the
crate's root is above all floors. No circle may have more than CIRCLE_FILES_MAX files.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

from rust_crate import Crate, Names

CIRCLE_FILES_MAX = 4
FLOORS = "layers.txt"


class Floors:
    """The floors that a crate writes down, from 1 on."""

    def __init__(self, file: Path) -> None:
        self.named: dict[Names, int] = {}
        self.twice: list[Names] = []
        lines = (line.split("#")[0].split() for line in file.read_text().splitlines())
        for floor, names in enumerate(filter(None, lines), 1):
            for module in (tuple(name.split("::")) for name in names):
                if module in self.named:
                    self.twice.append(module)
                self.named[module] = floor

    def of(self, module: Names) -> int | None:
        """The floor of a module, or of the nearest one above it that is named."""
        while module and module not in self.named:
            module = module[:-1]
        return self.named.get(module)


def circles(uses: dict[Names, set[Names]]) -> list[list[Names]]:
    """The groups of modules that all lead to each other (Tarjan 1972), the largest first."""
    order: dict[Names, int] = {}
    low: dict[Names, int] = {}
    stack: list[Names] = []
    found: list[list[Names]] = []

    def visit(module: Names) -> None:
        order[module] = low[module] = len(order)
        stack.append(module)
        for other in sorted(uses[module]):
            if other not in order:
                visit(other)
                low[module] = min(low[module], low[other])
            elif other in stack:
                low[module] = min(low[module], order[other])
        if low[module] == order[module]:
            group = stack[stack.index(module) :]
            del stack[stack.index(module) :]
            if len(group) > 1:
                found.append(sorted(group))

    for module in uses:
        if module not in order:
            visit(module)
    return sorted(found, key=len, reverse=True)


def shown(module: Names) -> str:
    return "::".join(module) or "the crate's root"


def complaints(folder: Path) -> list[str]:
    """What is wrong with a crate, a line each."""
    file = folder / FLOORS
    if not file.exists():
        return [f"{file} is missing; it names the crate's modules, one floor a line, the lowest first"]
    crate, floors = Crate(folder), Floors(file)
    lines = [f"{file} names {shown(module)} twice" for module in floors.twice]
    lines += [f"{file} names {shown(module)}, and there is no such module" for module in floors.named if module not in crate.uses]
    for module in sorted(crate.uses.keys() - {()}):
        where, floor = crate.file_of(module), floors.of(module)
        if floor is None:
            lines.append(f"{where} is on no floor of {file}; name {shown(module)} there")
            continue
        for used in sorted(crate.uses[module]):
            above = floors.of(used)
            if not used:
                lines.append(f"{where} is on floor {floor} and uses what is in {crate.file_of(())}, above all floors")
            elif above is not None and above > floor:
                lines.append(f"{where} is on floor {floor} and uses {shown(used)} on floor {above} of {file}")
    for module, used in crate.hiding_globs():
        lines.append(f"{crate.file_of(module)} uses all of {shown(used)}, and so, unnamed, what that uses; name what is meant")
    for group in circles(crate.uses):
        if len(group) > CIRCLE_FILES_MAX:
            files = " ".join(str(crate.file_of(module).relative_to(crate.source)) for module in group)
            lines.append(f"{crate.source} has a circle of {len(group)} files, more than {CIRCLE_FILES_MAX}: {files}")
    return lines


def show(folder: Path) -> None:
    uses = Crate(folder).uses
    for module, used in sorted(uses.items()):
        print(f"{shown(module)} uses {', '.join(map(shown, sorted(used))) or 'nothing'}")
    for group in circles(uses):
        print(f"a circle of {len(group)}: {', '.join(map(shown, group))}")


def crates_of_workspace() -> list[Path]:
    members = tomllib.loads(Path("Cargo.toml").read_text())["workspace"]["members"]
    return [folder for member in members for folder in sorted(Path().glob(member))]


def main(arguments: list[str]) -> int:
    shows = arguments[:1] == ["--show"]
    folders = list(map(Path, arguments[shows:])) or crates_of_workspace()
    for folder in folders:
        if not (folder / "src").is_dir():
            print(f"layers: {folder} is no crate; name a folder such as crates/heap", file=sys.stderr)
            return 2
    if shows:
        for folder in folders:
            show(folder)
        return 0
    lines = [line for folder in folders for line in complaints(folder)]
    for line in lines:
        print(f"layers: {line}", file=sys.stderr)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
