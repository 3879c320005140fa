"""Plain aligned text for people: columns measured in terminal cells, foreign text made visible."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence

from dsh_memory.text import visible

_GAP = "  "
_WORD_START = re.compile(r"(?<=[a-z])(?=[A-Z])")


def width(text: str) -> int:
    """How many terminal cells a text takes: two for wide characters, none for combining marks and joiners."""
    if text.isascii():
        return len(text)
    return sum(_cells(character) for character in text)


def cell(value: object) -> str:
    """One value as inert text; empty for None, yes or no for a truth value."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return visible(str(value))


def table(
    headers: Sequence[str], rows: Iterable[Sequence[object]], *, right: Iterable[int] = ()
) -> list[str]:
    """The lines of a table, its head first; `right` names the columns (from 0) that hold numbers."""
    shown = [list(headers), *([cell(value) for value in row] for row in rows)]
    widths = [max(width(row[column]) for row in shown) for column in range(len(headers))]
    return [_line(row, widths, frozenset(right)) for row in shown]


def facts(pairs: Iterable[tuple[str, object]]) -> list[str]:
    """The lines of a list of names and values, the values in one column."""
    shown = [(name, cell(value)) for name, value in pairs]
    widest = max((width(name) for name, _ in shown), default=0)
    return [f"{_padded(name, widest)}{_GAP}{value}".rstrip() for name, value in shown]


def outcome(value: Mapping[str, object]) -> list[str]:
    """The lines of a value of the contract: its keys as words; a list has one line for each text in it."""
    pairs: list[tuple[str, object]] = []
    for key, item in value.items():
        name = _WORD_START.sub(" ", key).replace("_", " ").lower()
        if isinstance(item, list):
            pairs += [(name, entry) for entry in item if isinstance(entry, str)] or [
                (name, len(item) or "none")
            ]
        else:
            pairs.append((name, "none" if item is None else item))
    return facts(pairs)


def _line(row: Sequence[str], widths: Sequence[int], right: frozenset[int]) -> str:
    cells = [
        " " * (widths[column] - width(text)) + text if column in right else _padded(text, widths[column])
        for column, text in enumerate(row)
    ]
    return _GAP.join(cells).rstrip()


def _padded(text: str, cells: int) -> str:
    return text + " " * (cells - width(text))


def _cells(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1
