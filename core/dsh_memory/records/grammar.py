"""The flat grammar of a front-matter header: text in, fields out (spec/repository.md, "Front matter").

Pure, and linear in its input. `handler.FlatHandler` gives this grammar to python-frontmatter; reading calls
it directly, because importing python-frontmatter loads a YAML parser that no record needs.
"""

from __future__ import annotations

import json
import re
from typing import Final, NamedTuple, NoReturn

FIRST_HEADER_LINE: Final = 2
"""Line of the file on which a header starts: its opening fence is line 1."""

CONSTANTS: Final[dict[str, bool | None]] = {"true": True, "false": False, "null": None, "~": None}
# Longer integers and other spellings (013, 1e3, +5) stay the typed text: no reader may change them.
NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,30})?")
_MARKED_STARTS: Final = frozenset("'\"[{&*!|>")
_LIST_OPENERS: Final = ("", "[]", "{}")
_BLOCK_SCALAR_MODIFIERS: Final = frozenset("+-0123456789")


class FrontMatterError(ValueError):
    """A header that cannot be accepted, with the contract's code and its place (1-based) in the file."""

    def __init__(self, code: str, line: int | None, message: str, column: int | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.line = line
        self.column = column
        self.message = message


class Item(NamedTuple):
    """One entry of a list: as typed, as text without quotes, and its line."""

    raw: str
    text: str
    line: int

    @property
    def value(self) -> object:
        """The entry as the grammar types it."""
        return typed(self.raw, self.text)


class Field(NamedTuple):
    """One `key: value` of a header; `items` is None for a scalar, and lines are 1-based in the file."""

    key: str
    raw: str
    text: str
    items: tuple[Item, ...] | None
    line: int
    last_line: int

    @property
    def value(self) -> object:
        """The value as the grammar types it: bool, None, int, float, str, list, or dict of a JSON object."""
        if self.items is not None:
            return [item.value for item in self.items]
        return typed(self.raw, self.text)


def parse_fields(header: str) -> dict[str, Field]:
    """Read the text between the fences into its fields, by key and in order; raises FrontMatterError."""
    if "\r" in header:
        header = header.replace("\r\n", "\n")
    fields: dict[str, Field] = {}
    latest: Field | None = None
    items: list[Item] = []
    for number, line in enumerate(header.split("\n"), FIRST_HEADER_LINE):
        if not line or line[0] == "#":
            continue
        if line[0] in " \t\r":
            _read_indented(line, number, latest, items)
            continue
        if items and latest is not None:
            fields[latest.key] = _with_items(latest, items)
            items.clear()
        key, colon, rest = line.partition(":")
        if not colon or not key.isidentifier() or key in CONSTANTS:
            key = _checked_key(key, colon, number)
        if key in fields:  # guard: duplicate-keys
            first = fields[key].line
            raise _structural(number, f'the key "{shorten(key)}" stands twice, first on line {first}', 1)
        raw = rest.strip(" \t")
        if not raw or raw[0] in _MARKED_STARTS or "\t" in rest:
            latest = _read_marked(key, raw, rest, number, len(line) - len(rest))
        else:
            latest = Field(key, raw, raw, None, number, number)
        fields[key] = latest
    if items and latest is not None:
        fields[latest.key] = _with_items(latest, items)
    return fields


def _checked_key(name: str, colon: str, number: int) -> str:
    key = name.rstrip(" \t")
    fault = key_fault(key)
    if fault is None and not colon:
        fault = f'a line must be "key: value", and "{shorten(key)}" has no colon'
    if fault is not None:
        raise _structural(number, fault, 1)
    return key


def _read_marked(key: str, raw: str, rest: str, number: int, start: int) -> Field:
    """Read a value that is empty, or may be a list, a quoted text or something to refuse."""
    if raw in _LIST_OPENERS:
        return Field(key, raw, raw, (), number, number)
    blanks = len(rest) - len(rest.lstrip(" "))
    column = start + blanks + 1
    if rest[blanks] == "\t":
        raise _structural(number, f'a tab follows "{shorten(key)}:" where a space belongs', column)
    parts = _flow_items(raw)
    if parts is None:
        return Field(key, raw, _scalar_text(raw, number, column), None, number, number)
    items = tuple(Item(part, _scalar_text(part, number, column), number) for part in parts)
    return Field(key, raw, raw, items, number, number)


def _read_indented(line: str, number: int, latest: Field | None, items: list[Item]) -> None:
    content = line.strip(" \t\r")
    if not content or content[0] == "#":
        return
    if content[0] != "-" or content[1:2] not in ("", " ", "\t"):
        message = 'an indented line must be a "- item" of a list or a comment'
        raise _structural(number, message, line.index(content) + 1)
    if latest is None or latest.raw not in _LIST_OPENERS:
        message = "a list item follows a line that starts no list"
        raise _structural(number, message, line.index(content) + 1)
    raw = content[1:].lstrip(" \t")
    if raw and raw[0] in _MARKED_STARTS:
        items.append(Item(raw, _scalar_text(raw, number, line.index(raw) + 1), number))
    else:
        items.append(Item(raw, raw, number))


def _with_items(field: Field, items: list[Item]) -> Field:
    return Field(field.key, field.raw, field.text, tuple(items), field.line, items[-1].line)


def _scalar_text(raw: str, line: int, column: int) -> str:
    """Take the quotes off a value and refuse what only a YAML reader would understand."""
    first = raw[0]
    if first not in _MARKED_STARTS:
        return raw
    if first in "'\"" and len(raw) > 1 and raw[-1] == first:
        text = _unquote_double(raw) if first == '"' else _unquote_single(raw)
        if text is None:
            raise _structural(line, f"the quoted text {shorten(raw)} is wrongly closed or escaped", column)
        return text
    if first == "!" or (first in "&*" and raw[1:2] not in ("", " ", "\t")):  # guard: yaml-references
        kind = {"!": "tag", "&": "anchor", "*": "alias"}[first]
        raise _structural(line, f'a YAML {kind} ("{shorten(raw)}") is not allowed; quote the text', column)
    if first in "|>":
        modifiers = raw[1:].partition("#")[0].strip(" \t")
        if len(modifiers) <= 2 and _BLOCK_SCALAR_MODIFIERS.issuperset(modifiers):
            raise _structural(
                line, f'a text block ("{first}") is not allowed; keep the value on one line', column
            )
    return raw


def _unquote_double(raw: str) -> str | None:
    inner = raw[1:-1]
    if "\\" not in inner:
        return None if '"' in inner else inner
    text = _json_value(raw)
    return text if isinstance(text, str) else None


def _unquote_single(raw: str) -> str | None:
    inner = raw[1:-1]
    if "'" not in inner:
        return inner
    return None if "'" in inner.replace("''", "") else inner.replace("''", "'")


def _flow_items(raw: str) -> list[str] | None:
    """Split `[a, "b, c"]` at its commas; None when it is no flat flow list."""
    if raw[0] != "[" or raw[-1] != "]" or len(raw) < 2:
        return None
    if not raw[1:-1].strip(" \t"):
        return []
    parts: list[str] = []
    start = position = 1
    end = len(raw) - 1
    at_start = True
    while position <= end:
        char = raw[position]
        if char in "'\"" and at_start:
            position = _closing_quote(raw, position, end)
            if position < 0:
                return None
        elif char == "," or position == end:
            part = raw[start:position].strip(" \t")
            if not part:
                return None
            parts.append(part)
            start = position + 1
        elif char in "[]{}":
            return None
        at_start = char == "," or (at_start and char in " \t")
        position += 1
    return parts


def _closing_quote(raw: str, opening: int, end: int) -> int:
    quote = raw[opening]
    position = opening + 1
    while position < end:
        char = raw[position]
        if char == "\\" and quote == '"':
            position += 2
            continue
        if char == quote:
            if quote == '"' or raw[position + 1] != quote:
                return position
            position += 1
        position += 1
    return -1


def typed(raw: str, text: str) -> object:
    """Type one scalar: constants, plain numbers and one-line JSON are read, everything else is its text."""
    if not raw or raw[0] in "'\"":
        return text
    if raw in CONSTANTS:
        return CONSTANTS[raw]
    if raw[0] in "-0123456789" and NUMBER.fullmatch(raw):
        return float(raw) if "." in raw else int(raw)
    if (raw[0], raw[-1]) in (("{", "}"), ("[", "]")):
        value = _json_value(raw)
        return raw if value is None else value
    return text


def _json_value(raw: str) -> object | None:
    """Decode one line of strict JSON; None for what is none, repeats a key, or cannot be written again."""
    try:
        value: object = _STRICT_JSON.decode(raw)
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError):
        return None
    return value


def _unique_pairs(pairs: list[tuple[str, object]]) -> dict[str, object]:
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        raise ValueError("a key is repeated")
    return mapping


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


_STRICT_JSON: Final = json.JSONDecoder(
    strict=False, object_pairs_hook=_unique_pairs, parse_constant=_no_constant
)


def key_fault(key: str) -> str | None:
    """Say why a text cannot be a key, or None; keys are plain text, never quoted and never typed."""
    if not key:
        return 'a line must be "key: value", and this one has no key'
    if key.isidentifier() and key not in CONSTANTS:
        return None
    if key in CONSTANTS or NUMBER.fullmatch(key):
        return f'the key "{shorten(key)}" is not a text'
    if key == "-" or key.startswith(("- ", "-\t")):
        return "list items must be indented"
    if key[0] in "'\"[{&*!" or key.startswith("? "):
        return f"the key {shorten(key)} is not plain text"
    return None


def shorten(text: str, limit: int = 60) -> str:
    """Cut a foreign text for use in a message; it still has to be made visible before it is shown."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _structural(line: int, message: str, column: int) -> FrontMatterError:
    return FrontMatterError("invalid-metadata", line, message, column)
