"""Foreign text made safe to show: what a terminal would obey or a reader would not see becomes an escape."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

TAB: Final = "    "
_NAMED: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_NOT_PLAIN_ASCII: Final = re.compile(r"[^\x20-\x7e]")
# Printable by Unicode's account, and yet nothing is seen: joiners, fillers and variation selectors, which can
# hide a message inside a harmless word.
_UNSEEN: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
_EMOJI_STYLE: Final = "\ufe0f"
_JOINER: Final = "\u200d"


def visible(text: str, *, keep_newlines: bool = False) -> str:
    r"""Escape control, bidirectional, zero-width and undecodable characters (`\x1b`, `\u202e`); never raises.

    With `keep_newlines` line ends (LF, CRLF) stay as LF and a tab is four spaces; otherwise both are escaped.
    Bytes of file names that are no UTF-8, which arrive as lone surrogates, are shown as `\xNN`. Applied again
    it changes nothing.
    """
    if keep_newlines:
        lines = text.replace("\r\n", "\n").replace("\t", TAB).split("\n")
        return "\n".join([_visible_line(line) for line in lines])
    return _visible_line(text)


def _visible_line(line: str) -> str:
    if line.isprintable() and (line.isascii() or _UNSEEN.search(line) is None):
        return line
    return _NOT_PLAIN_ASCII.sub(_shown, line)


def _shown(match: re.Match[str]) -> str:
    char = match[0]
    if char.isprintable() and _UNSEEN.match(char) is None:
        return char
    if unicodedata.category(char) == "Zs" or _belongs_to_emoji(char, match.string, match.start()):
        return char
    return _NAMED.get(char) or _escaped(ord(char))


def _belongs_to_emoji(char: str, line: str, position: int) -> bool:
    """Whether a style selector or joiner stands where an emoji sequence has one."""
    before = line[position - 1 : position]
    if char == _EMOJI_STYLE:
        return _is_symbol(before)
    if before == _EMOJI_STYLE:
        before = line[position - 2 : position - 1]
    return char == _JOINER and _is_symbol(before) and _is_symbol(line[position + 1 : position + 2])


def _is_symbol(char: str) -> bool:
    # Sk holds the skin tones, Sm some arrows; below this point no sign takes an emoji style.
    return char >= "\u2000" and unicodedata.category(char) in ("So", "Sk", "Sm")


def _escaped(code: int) -> str:
    if 0xDC80 <= code <= 0xDCFF:
        code -= 0xDC00
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
