"""What a terminal has to be sent where one painted line takes the place of another."""

from __future__ import annotations

from rich.cells import cell_len
from rich.style import Style
from textual.strip import Strip


def look_alike(one: Style, other: Style) -> bool:
    """Whether blanks look the same in both styles."""
    return one.bgcolor == other.bgcolor and not any(
        style.underline or style.reverse or style.strike for style in (one, other)
    )


def _cells(strip: Strip) -> list[tuple[str, object]]:
    """Each character with what can be seen of its style: of a blank, what is behind it."""
    return [
        (
            character,
            style.bgcolor if blank and not (style.underline or style.reverse or style.strike) else style,
        )
        for text, style, _control in strip
        if style is not None
        for character, blank in ((character, character == " ") for character in text)
    ]


def difference(before: Strip, after: Strip) -> tuple[int, int]:
    """The cells between which two lines of one width differ: a terminal is sent these only."""
    old, new = _cells(before), _cells(after)
    first = next(
        (at for at, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new))
    )
    last = 0
    while last < min(len(old), len(new)) - first and old[-1 - last] == new[-1 - last]:
        last += 1
    width = after.cell_length
    tail = cell_len("".join(character for character, _style in new[len(new) - last :]))
    start = cell_len("".join(character for character, _style in new[:first]))
    return start, max(start + 1, width - tail)
