"""Numbers in sentences."""

from __future__ import annotations


def counted(count: int, noun: str) -> str:
    """`1 record`, `2 records`, `1,024 records`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
