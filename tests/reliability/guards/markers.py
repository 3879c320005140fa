"""Where the marks of the safety checks stand, and which statement each one means."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PROJECT: Final = Path(__file__).parents[3]
SOURCES: Final = ("core", "tui")

_MARK: Final = re.compile(r"# guard: (?P<name>[a-z0-9-]+)")

#: What a mark may stand before: a statement, or the clause of a `try` that refuses.
Guarded = ast.stmt | ast.ExceptHandler


@dataclass(frozen=True, slots=True)
class Marker:
    """One mark: its file (relative to the project), the 1-based line after it, and what starts there.

    `guarded` is None where the line starts no statement (an entry of a literal): `outermost` is the statement
    that it lies in, or the whole chain that an `elif` or a handler belongs to.
    """

    name: str
    file: str
    line: int
    guarded: Guarded | None
    outermost: ast.stmt
    in_function: bool


def find_markers(project: Path = PROJECT) -> list[Marker]:
    """Every mark of the sources, by file and line."""
    return [
        marker
        for folder in SOURCES
        for path in sorted((project / folder).rglob("*.py"))
        for marker in markers_of(path.read_text(), str(path.relative_to(project)))
    ]


def markers_of(source: str, file: str) -> Iterator[Marker]:
    """The marks of one file."""
    lines = source.split("\n")
    marks = [(number, found["name"]) for number, text in enumerate(lines) if (found := _MARK.search(text))]
    if not marks:
        return
    tree = ast.parse(source)
    for number, name in marks:
        at = number
        while lines[at].lstrip().startswith("#"):
            at += 1
        yield _marker(tree, name, file, at + 1)


def _marker(tree: ast.Module, name: str, file: str, line: int) -> Marker:
    guarded: Guarded | None = None
    around: list[ast.stmt] = []
    in_function = False
    for node, parents in _walk(tree, ()):
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or 0):
            around = [each for each in (*parents, node) if isinstance(each, ast.stmt)]
            in_function = any(isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) for each in around)
        if isinstance(node, Guarded) and node.lineno == line:
            guarded = node
    if not around:
        raise LookupError(f"{file}:{line}: the mark {name} stands before nothing")
    outermost = around[-1]
    for outer in reversed(around[:-1]):
        # No statement can be put before an `elif` or an `except`: the chain as a whole is met.
        if not (isinstance(outer, ast.If) and outer.orelse == [outermost] and _is_elif(outermost, outer)):
            break
        outermost = outer
    return Marker(name, file, line, guarded, outermost, in_function)


def _is_elif(inner: ast.stmt, outer: ast.stmt) -> bool:
    return inner.col_offset == outer.col_offset


def _walk(node: ast.AST, parents: tuple[ast.AST, ...]) -> Iterator[tuple[ast.AST, tuple[ast.AST, ...]]]:
    """Every node, outer ones first, with the nodes that it lies in."""
    for child in ast.iter_child_nodes(node):
        yield child, (*parents, node)
        yield from _walk(child, (*parents, node))
