"""A crate of Rust as far as its files use each other: modules, and the paths in them.

What a file uses are the paths in it, in `use` or not, without those of tests. A path is followed
through what other modules pass on, to the file that it ends in. A method's name is no path: its
file counts as used where the type is named that has it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

# A path, or the module that it leads to from the crate's root, which is ().
Names = tuple[str, ...]

LEXEME = re.compile(
    r"""(?P<left_out>//[^\n]*|/\*.*?\*/|\s+|b?'(?:[^'\\]|\\(?:u\{\w+\}|x\w\w|.))'|'\w+)
    |b?r(?P<fence>\#*)".*?"(?P=fence)|[bc]?"(?:[^"\\]|\\.)*"
    |\w+|::|.""",
    re.S | re.X,
)
OPENING, CLOSING = "([{", ")]}"


def tokens_of(source: str) -> list[str]:
    return [lexeme.group() for lexeme in LEXEME.finditer(source) if not lexeme["left_out"]]


def is_name(token: str) -> bool:
    return token.isidentifier()


def end_of_group(tokens: list[str], at: int) -> int:
    """Behind what closes the bracket at `at`."""
    depth = 0
    for end in range(at, len(tokens)):
        depth += (tokens[end] in OPENING) - (tokens[end] in CLOSING)
        if depth == 0:
            return end + 1
    return len(tokens)


def end_of_item(tokens: list[str], at: int) -> int:
    """Behind an item: its semicolon or its braces, or the end of what it is in."""
    while at < len(tokens) and tokens[at] not in CLOSING:
        token = tokens[at]
        at = end_of_group(tokens, at) if token in OPENING else at + 1
        if token in ";{":
            break
    return at


def without_tests(tokens: list[str]) -> list[str]:
    kept: list[str] = []
    at = 0
    while at < len(tokens):
        end = at + 1
        if tokens[at:end] == ["#"] and tokens[end : end + 1] == ["["]:
            end = end_of_group(tokens, end)
            condition = "".join(tokens[at:end])
            if condition.startswith(("#[cfg(test", "#[cfg(all(test")):
                at = end_of_item(tokens, end)
                continue
        kept += tokens[at:end]
        at = end
    return kept


def leaves(tokens: list[str]) -> Iterator[tuple[Names, str | None]]:
    """What `use` names: `a::{b, c as d}` are a::b, and a::c under the name of d."""
    path: Names = ()
    for at, token in enumerate(tokens):
        if token == "{":
            inside = tokens[at + 1 : end_of_group(tokens, at) - 1]
            while inside:
                end = 0
                while end < len(inside) and inside[end] != ",":
                    end = end_of_group(inside, end)
                yield from ((path + inner, alias) for inner, alias in leaves(inside[:end]))
                inside = inside[end + 1 :]
            return
        if token == "as":
            yield path, tokens[at + 1]
            return
        if token != "::":
            path = (*path, token)
    if path:
        yield path, None


@dataclass
class Scope:
    """A module: what it brings in, and the paths in it."""

    # The module whose file it is in: itself, or one above it.
    home: Names
    # Several if `cfg` chooses one of them.
    files: list[Path]
    imports: dict[str, list[Names]] = field(default_factory=dict)
    globs: list[Names] = field(default_factory=list)
    paths: set[Names] = field(default_factory=set)


class Crate:
    """`uses` has the modules with a file of their own, each with those that it uses."""

    def __init__(self, folder: Path) -> None:
        self.source = folder / "src"
        self._scopes: dict[Names, Scope] = {}
        library = self.source / "lib.rs"
        self._read_file(library if library.exists() else self.source / "main.rs", ())
        self.uses: dict[Names, set[Names]] = {scope.home: set() for scope in self._scopes.values()}
        for name, scope in self._scopes.items():
            for path in scope.paths:
                self.uses[scope.home] |= {self._scopes[at].home for at, _ in self._ends(name, path)} - {scope.home}

    def file_of(self, module: Names) -> Path:
        return self._scopes[module].files[0]

    def hiding_globs(self) -> list[tuple[Names, Names]]:
        """Modules that bring in all of another one that brings in or holds more: no path would name that."""
        return [
            (scope.home, at)
            for name, scope in self._scopes.items()
            for path in scope.globs
            for at, left in self._ends(name, path)
            if not left and self._passes_on(at)
        ]

    def _passes_on(self, module: Names) -> bool:
        scope = self._scopes[module]
        return bool(scope.imports or scope.globs) or any(name[:-1] == module for name in self._scopes if name)

    def _read_file(self, file: Path, name: Names) -> None:
        self._scopes.setdefault(name, Scope(name, [])).files.append(file)
        self._read(file, name, without_tests(tokens_of(file.read_text())))

    def _read(self, file: Path, name: Names, tokens: list[str]) -> None:
        scope = self._scopes[name]
        files_of_child: list[str] = []
        at = 0
        while at < len(tokens):
            token, following = tokens[at], tokens[at + 1 : at + 3]
            end = at + 1
            if token == "#" and following[:1] == ["["]:
                end = end_of_group(tokens, at + 1)
                files_of_child += re.findall(r'path="(.*?)"', "".join(tokens[at:end]))
            elif token == "pub" and following[:1] == ["("]:
                end = end_of_group(tokens, at + 1)
            elif token == "mod" and following[1:] == [";"]:
                for child in files_of_child or [self._usual_file(file, following[0])]:
                    self._read_file(file.parent / child, (*name, following[0]))
                files_of_child = []
            elif token == "mod" and following[1:] == ["{"]:
                end = end_of_group(tokens, at + 2)
                inside = (*name, following[0])
                self._scopes.setdefault(inside, Scope(scope.home, [file]))
                self._read(file, inside, tokens[at + 3 : end - 1])
            elif token == "use" and following[:1] != ["<"]:
                end = tokens.index(";", at)
                self._read_use(scope, tokens[at + 1 : end])
            elif is_name(token) and following[:1] == ["::"]:
                while tokens[end : end + 1] == ["::"] and is_name(tokens[end + 1]):
                    end += 2
                if tokens[at - 1] != "::":
                    scope.paths.add(tuple(tokens[at:end:2]))
            at = end

    def _usual_file(self, file: Path, child: str) -> str:
        folder = "" if file.stem in ("lib", "main", "mod") else f"{file.stem}/"
        flat = f"{folder}{child}.rs"
        return flat if (file.parent / flat).exists() else f"{folder}{child}/mod.rs"

    def _read_use(self, scope: Scope, tokens: list[str]) -> None:
        for path, alias in leaves(tokens):
            match path[-1]:
                case "*":
                    path = path[:-1]
                    scope.globs.append(path)
                case last:
                    path = path[:-1] if last == "self" else path
                    scope.imports.setdefault(alias or path[-1], []).append(path)
            scope.paths.add(path)

    def _ends(
        self, start: Names, path: Names, followed: frozenset[tuple[Names, str]] = frozenset()
    ) -> set[tuple[Names, Names]]:
        """The modules that a path leads to from a module, and what is left of it there; none in another crate."""
        at, left = start, path
        if path[0] in ("crate", "self", "super"):
            at = {"crate": (), "self": start, "super": start[:-1]}[path[0]]
            left = path[1:]
        while left and (left[0] == "super" or (*at, left[0]) in self._scopes):
            at = at[:-1] if left[0] == "super" else (*at, left[0])
            left = left[1:]
        if left and (at, left[0]) not in followed:
            targets = self._scopes[at].imports.get(left[0], [])
            ends = [self._ends(at, target + left[1:], followed | {(at, left[0])}) for target in targets]
            if any(ends):
                return set().union(*ends)
        return set() if left == path else {(at, left)}
