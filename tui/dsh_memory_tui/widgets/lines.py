"""Lines as values: pieces of text with a role, fitted to a width in cells; pure, without Textual."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from rich.cells import cell_len, set_cell_size

from dsh_memory import visible


@dataclass(frozen=True, slots=True)
class Piece:
    """Text of one role; themes.py gives the role its colours."""

    text: str
    role: str = "text"


@dataclass(frozen=True, slots=True)
class Line:
    """One line: pieces from the left, and pieces that end at the right edge.

    `fill` is the role whose background covers the whole line (diffs). The cursor covers the first
    `cursor_cells` cells only, where a line holds two columns.
    """

    pieces: tuple[Piece, ...] = ()
    right: tuple[Piece, ...] = ()
    fill: str | None = None
    cursor_cells: int | None = None

    @property
    def text(self) -> str:
        """The text without its roles, left part and right part."""
        left = "".join(piece.text for piece in self.pieces)
        right = "".join(piece.text for piece in self.right)
        return f"{left}  {right}" if right else left


EMPTY = Line()


def line(*parts: str | Piece | tuple[str, str], right: Iterable[Piece | tuple[str, str]] = ()) -> Line:
    """A line from texts and (text, role) pairs."""
    return Line(tuple(_piece(part) for part in parts), tuple(_piece(part) for part in right))


def rule(width: int) -> Line:
    """A thin rule across the width."""
    return Line((Piece("─" * max(0, width), "rule"),))


def heading(title: str, note: str = "") -> Line:
    """A section heading, with a quiet note after it."""
    return line((title, "strong"), ("   " + note if note else "", "muted"))


def beside(left: Line, right: Line, left_width: int, *, gap: int) -> Line:
    """Two lines as one, the right one starting at a fixed column."""
    if not right.pieces and not right.right:
        return Line((*fit(left, left_width),), cursor_cells=left_width)
    pieces = (*fit(left, left_width), Piece(" " * gap), *right.pieces, *right.right)
    return Line(pieces, cursor_cells=left_width)


def cut(text: str, width: int) -> str:
    """The text in at most `width` cells, an ellipsis in place of what does not fit."""
    if width <= 0:
        return ""
    if len(text) <= width and text.isascii():
        return text
    if cell_len(text) <= width:
        return text
    return set_cell_size(text[: width + 1], width - 1).rstrip() + "…"


def pad(text: str, width: int) -> str:
    """The text cut and filled to exactly `width` cells, from the left."""
    text = cut(text, width)
    return text + " " * (width - cell_len(text))


def pad_left(text: str, width: int) -> str:
    """The text cut and filled to exactly `width` cells, ending at the right: numbers."""
    text = cut(text, width)
    return " " * (width - cell_len(text)) + text


def fit(content: Line, width: int) -> list[Piece]:
    """The pieces of a line that fill `width` cells: the right part keeps its place, the left is cut.

    The last gate before a terminal: text that is not printable is made visible here, wherever it came from.
    """
    content = replace(content, pieces=_inert(content.pieces), right=_inert(content.right))
    right_width = sum(cell_len(piece.text) for piece in content.right)
    if content.right and right_width + 2 > width:
        return _fit_left(content.pieces + content.right, width)
    left_width = width - right_width - (1 if content.right else 0)
    pieces = _fit_left(content.pieces, left_width)
    used = sum(cell_len(piece.text) for piece in pieces)
    gap = width - right_width - used
    if gap > 0:
        pieces.append(Piece(" " * gap))
    pieces.extend(content.right)
    return pieces


def wrap(text: str, width: int) -> list[str]:
    """One line of text as lines of at most `width` cells, broken at spaces where there are any."""
    if width <= 1 or (len(text) <= width and text.isascii()) or cell_len(text) <= width:
        return [text]
    lines: list[str] = []
    rest = text
    while rest and cell_len(rest) > width:
        end = _cells_prefix(rest, width)
        space = rest.rfind(" ", max(1, end // 3), end + 1)
        if space > 0:
            lines.append(rest[:space])
            rest = rest[space + 1 :]
        else:
            lines.append(rest[:end])
            rest = rest[end:]
    if rest or not lines:
        lines.append(rest)
    return lines


def _inert(pieces: tuple[Piece, ...]) -> tuple[Piece, ...]:
    # guard: inert-text
    if all(piece.text.isprintable() for piece in pieces):
        return pieces
    return tuple(Piece(visible(piece.text), piece.role) for piece in pieces)


def _cells_prefix(text: str, width: int) -> int:
    """How many characters of the text fit into `width` cells; at least one."""
    end = min(len(text), width)
    while end > 1 and cell_len(text[:end]) > width:
        end -= 1
    return max(1, end)


def _fit_left(pieces: tuple[Piece, ...], width: int) -> list[Piece]:
    fitted: list[Piece] = []
    left = max(0, width)
    for piece in pieces:
        cells = cell_len(piece.text)
        if cells <= left:
            fitted.append(piece)
            left -= cells
            continue
        if left > 0:
            fitted.append(Piece(cut(piece.text, left), piece.role))
        break
    return fitted


def _piece(part: str | Piece | tuple[str, str]) -> Piece:
    if isinstance(part, Piece):
        return part
    return Piece(part) if isinstance(part, str) else Piece(part[0], part[1])
