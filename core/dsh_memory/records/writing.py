"""How values are written into the flat grammar so that reading them again gives the same value."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from decimal import Decimal

from dsh_memory.records.grammar import key_fault, typed

# More than our own grammar needs: what would start something else for a YAML reader is quoted as well.
_QUOTED_STARTS = frozenset("'\"[]{}&*!|>#-?%@`,")


def field_lines(key: str, value: object) -> list[str]:
    """Write one field as lines without line ends; raises ValueError for what the grammar cannot hold."""
    fault = key_fault(key)
    if fault or not is_plain(key) or ":" in key:
        raise ValueError(fault or f"the key {key!r} cannot be written")
    if isinstance(value, list | tuple) and value and _is_flat(value):
        return [f"{key}:", *(f"  - {inline(item)}" for item in value)]
    return [f"{key}: {inline(value)}"]


def inline(value: object) -> str:
    """Write one value on one line."""
    if isinstance(value, str):
        return value if is_plain(value) else _json(value)
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return _number(value)
    if isinstance(value, Mapping) and value:
        return _json(dict(value))
    if isinstance(value, list | tuple):
        return _json(list(value))
    raise ValueError(f"a {type(value).__name__} such as {value!r} has no form in front matter")


def flow(values: Sequence[object]) -> str:
    """Write a list as `[a, b]`, the form it is kept in where a person chose it."""
    return "[" + ", ".join(_flow_entry(inline(value)) for value in values) + "]"


def _flow_entry(written: str) -> str:
    return _json(written) if written[0] not in '"[{' and set(written) & set(",[]{}'") else written


def is_plain(text: str) -> bool:
    """Whether a text can stand unquoted: read again it is the same text, for this grammar and for YAML."""
    return (
        text.isprintable()
        and text == text.strip(" ")
        and text[:1] not in _QUOTED_STARTS
        and text != ""
        and isinstance(typed(text, text), str)
        and ": " not in text
        and " #" not in text
        and not text.endswith(":")
    )


def _is_flat(values: Sequence[object]) -> bool:
    return not any(isinstance(value, Mapping | list | tuple) for value in values)


def _number(value: int | float) -> str:
    text = str(value) if isinstance(value, int) else format(Decimal(repr(value)), "f")
    if isinstance(value, float) and "." not in text:
        text += ".0"
    if typed(text, text) != value:
        raise ValueError(f"the number {value!r} has no exact form in front matter")
    return text


def _json(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    text.encode()  # a lone surrogate has no place in a UTF-8 file: UnicodeEncodeError is a ValueError
    return text
