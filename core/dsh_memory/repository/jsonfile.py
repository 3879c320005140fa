"""The small JSON files below `.sync`: compact lines out, objects in."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def to_json_line(values: Mapping[str, Any]) -> bytes:
    """One compact line of JSON in UTF-8; bytes of names that are not UTF-8 stay escaped lone surrogates."""
    text = json.dumps(values, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.encode("utf-8", "backslashreplace") + b"\n"


def parse_json_object(data: bytes) -> dict[str, Any] | None:
    """The JSON object that `data` is, or None for anything else."""
    try:
        values = json.loads(data, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    return values if isinstance(values, dict) else None


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no JSON")
