"""Both sides of a changed file as lines: unified or side by side, with marks on the words that differ."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass

from rich.cells import cell_len

from dsh_memory import visible
from dsh_memory.inspection import FileDiff
from dsh_memory_tui.widgets.lines import Line, Piece, cut, line, wrap
from dsh_memory_tui.wording import size

#: Unchanged lines around a change.
CONTEXT = 3
#: Lines of one file beyond which only the first are compared.
MAX_LINES = 6_000
_WORDS = re.compile(r"\w+|\s+|[^\w\s]")


@dataclass(frozen=True, slots=True)
class DiffRow:
    """A row of a diff: line numbers (from 1) and marked text of either side; None where a side has none."""

    old_number: int | None
    old: tuple[Piece, ...] | None
    new_number: int | None
    new: tuple[Piece, ...] | None

    @property
    def changed(self) -> bool:
        """Whether the sides differ."""
        return self.old_number is None or self.new_number is None or self.old != self.new


@dataclass(frozen=True, slots=True)
class Hunk:
    """Rows that stand together, with `skipped` unchanged lines before them."""

    skipped: int
    rows: tuple[DiffRow, ...]


def hunks(diff: FileDiff) -> tuple[Hunk, ...]:
    """The changed places of a file with their surroundings."""
    old, new = _split(diff.old), _split(diff.new)
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=len(old) + len(new) > 2_000)
    found: list[Hunk] = []
    seen = 0
    for group in matcher.get_grouped_opcodes(CONTEXT):
        rows: list[DiffRow] = []
        for tag, a, b, c, d in group:
            if tag == "equal":
                for offset in range(b - a):
                    pieces = _plain(old[a + offset])
                    rows.append(DiffRow(a + offset + 1, pieces, c + offset + 1, pieces))
            else:
                rows.extend(_replaced(old, new, a, b, c, d))
        start = group[0][1]
        found.append(Hunk(max(0, start - seen), tuple(rows)))
        seen = group[-1][2]
    return tuple(found)


def unified(diff: FileDiff, width: int) -> tuple[list[Line], list[int]]:
    """The diff one under the other, and the line index of each hunk's first change."""
    parts = hunks(diff)
    digits = _digits(parts)
    room = max(8, width - 2 * digits - 5)
    lines: list[Line] = []
    starts: list[int] = []
    for hunk in parts:
        if hunk.skipped:
            lines.append(_skipped(hunk.skipped, width))
        first = True
        for block in _blocks(hunk.rows):
            if not block[0].changed:
                for row in block:
                    lines.extend(
                        _unified_row(
                            row.old_number, row.new_number, " ", row.new or (), "muted", digits, room
                        )
                    )
                continue
            if first:
                starts.append(len(lines))
                first = False
            elif block[0].changed:
                starts.append(len(lines))
            for row in block:
                if row.old is not None:
                    lines.extend(_unified_row(row.old_number, None, "-", row.old, "removed", digits, room))
            for row in block:
                if row.new is not None:
                    lines.extend(_unified_row(None, row.new_number, "+", row.new, "added", digits, room))
    lines.extend(_notes(diff))
    return lines, starts


def side_by_side(diff: FileDiff, width: int) -> tuple[list[Line], list[int]]:
    """The diff with the old text left and the new text right, and the line of each hunk's first change."""
    parts = hunks(diff)
    digits = _digits(parts)
    half = max(12, (width - 3) // 2)
    lines: list[Line] = []
    starts: list[int] = []
    for hunk in parts:
        if hunk.skipped:
            lines.append(_skipped(hunk.skipped, width))
        before_changed = False
        for row in hunk.rows:
            if row.changed and not before_changed:
                starts.append(len(lines))
            before_changed = row.changed
            left = _half(
                row.old_number,
                row.old,
                "-" if row.changed and row.old is not None else " ",
                "removed",
                digits,
                half,
            )
            right = _half(
                row.new_number,
                row.new,
                "+" if row.changed and row.new is not None else " ",
                "added",
                digits,
                half,
            )
            for index in range(max(len(left), len(right))):
                lines.append(
                    Line(
                        (
                            *(left[index] if index < len(left) else (Piece(" " * half),)),
                            Piece(" │ ", "rule"),
                            *(right[index] if index < len(right) else (Piece(" " * half),)),
                        )
                    )
                )
    lines.extend(_notes(diff))
    return lines, starts


def _notes(diff: FileDiff) -> Iterator[Line]:
    if diff.binary:
        yield line(
            (f"Not text: {size(diff.old_size)} before, {size(diff.new_size)} after.", "muted"),
        )
        return
    longest = max(len(side.splitlines()) for side in (diff.old or "", diff.new or ""))
    if longest > MAX_LINES:
        yield line((f"… compared up to line {MAX_LINES:,} of {longest:,}", "attention"))
    for side, words in ((diff.old, "before"), (diff.new, "after")):
        if side and not side.endswith("\n"):
            yield line((f"  no newline at the end ({words})", "muted"))
    if diff.old is not None and diff.new is not None and diff.old == diff.new:
        yield line(("The text is the same; only the file's mode differs.", "muted"))


def _split(side: str | None) -> list[str]:
    return (
        side.split("\n")[: MAX_LINES + 1][: None if not side.endswith("\n") else -1][:MAX_LINES]
        if side
        else []
    )


def _plain(text: str) -> tuple[Piece, ...]:
    return (Piece(visible(text)),)


def _replaced(old: list[str], new: list[str], a: int, b: int, c: int, d: int) -> Iterator[DiffRow]:
    common = min(b - a, d - c)
    for offset in range(common):
        before, after = _marked(old[a + offset], new[c + offset])
        yield DiffRow(a + offset + 1, before, c + offset + 1, after)
    for index in range(a + common, b):
        yield DiffRow(index + 1, (Piece(visible(old[index]), "removed-line"),), None, None)
    for index in range(c + common, d):
        yield DiffRow(None, None, index + 1, (Piece(visible(new[index]), "added-line"),))


def _marked(old: str, new: str) -> tuple[tuple[Piece, ...], tuple[Piece, ...]]:
    """Both lines with the words that differ marked; whole lines where hardly anything is common."""
    before, after = _WORDS.findall(old), _WORDS.findall(new)
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    if len(old) + len(new) > 4_000 or matcher.ratio() < 0.3:
        return (Piece(visible(old), "removed-line"),), (Piece(visible(new), "added-line"),)
    left: list[Piece] = []
    right: list[Piece] = []
    for tag, i, j, k, m in matcher.get_opcodes():
        word = tag != "equal"
        if j > i:
            left.append(Piece(visible("".join(before[i:j])), "removed-word" if word else "removed-line"))
        if m > k:
            right.append(Piece(visible("".join(after[k:m])), "added-word" if word else "added-line"))
    return tuple(left), tuple(right)


def _blocks(rows: tuple[DiffRow, ...]) -> Iterator[list[DiffRow]]:
    block: list[DiffRow] = []
    for row in rows:
        if block and block[-1].changed != row.changed:
            yield block
            block = []
        block.append(row)
    if block:
        yield block


def _unified_row(
    old_number: int | None,
    new_number: int | None,
    sign: str,
    pieces: tuple[Piece, ...],
    role: str,
    digits: int,
    room: int,
) -> Iterator[Line]:
    fill = None if sign == " " else f"{role}-line"
    numbers = f"{old_number or '':>{digits}} {new_number or '':>{digits}} "
    for index, part in enumerate(_wrapped(pieces, room)):
        gutter = (
            Piece(numbers if index == 0 else " " * len(numbers), "muted"),
            Piece(f"{sign} " if index == 0 else "  ", role if sign != " " else "muted"),
        )
        yield Line((*gutter, *part), fill=fill)


def _half(
    number: int | None, pieces: tuple[Piece, ...] | None, sign: str, role: str, digits: int, half: int
) -> list[tuple[Piece, ...]]:
    room = max(4, half - digits - 3)
    if pieces is None:
        return [(Piece(" " * half),)]
    fill = f"{role}-line" if sign != " " else "text"
    lines = []
    for index, part in enumerate(_wrapped(pieces, room)):
        used = sum(cell_len(piece.text) for piece in part)
        lines.append(
            (
                Piece(f"{number if index == 0 and number else '':>{digits}} ", "muted"),
                Piece(f"{sign} " if index == 0 else "  ", role if sign != " " else "muted"),
                *part,
                Piece(" " * max(0, half - digits - 3 - used), fill),
            )
        )
    return lines


def _wrapped(pieces: tuple[Piece, ...], room: int) -> list[tuple[Piece, ...]]:
    """Pieces in lines of at most `room` cells, each piece keeping its role."""
    if sum(cell_len(piece.text) for piece in pieces) <= room:
        return [pieces]
    lines: list[tuple[Piece, ...]] = []
    text = "".join(piece.text for piece in pieces)
    roles = [piece.role for piece in pieces for _ in piece.text]
    at = 0
    for part in wrap(text, room):
        at = text.index(part, at) if part else at
        row: list[Piece] = []
        for offset, character in enumerate(part):
            role = roles[at + offset]
            if row and row[-1].role == role:
                row[-1] = Piece(row[-1].text + character, role)
            else:
                row.append(Piece(character, role))
        lines.append(tuple(row))
        at += len(part)
    return lines


def _digits(parts: tuple[Hunk, ...]) -> int:
    highest = max((row.new_number or row.old_number or 0 for hunk in parts for row in hunk.rows), default=1)
    return max(3, len(str(highest)))


def _skipped(count: int, width: int) -> Line:
    return line((cut(f"··· {count:,} unchanged {'line' if count == 1 else 'lines'} ", width), "muted"))
