"""A record in outline: what lists and counts need of it, without its body."""

from __future__ import annotations

from typing import Final, NamedTuple

from dsh_memory.records.metadata import Record

_TITLE_BYTES: Final = 2048
_TITLE_CHARACTERS: Final = 120


class Outline(NamedTuple):
    """One record without its body; `title` is the body's first heading or first line, else the file's name.

    `type` and `status` are None for a legacy record, `size` is in bytes, `conflicted` says that its status or its
    `conflicts_with` names a conflict.
    """

    path: str
    id: str
    title: str
    type: str | None
    status: str | None
    updated_at: str | None
    expires_at: str | None
    review_after: str | None
    conflicted: bool
    size: int

    @property
    def is_legacy(self) -> bool:
        """Whether it has no front matter."""
        return self.status is None


def outline_of(record: Record) -> Outline:
    """The outline of a record."""
    metadata = record.metadata
    if metadata is None:
        return Outline(
            record.path,
            record.id,
            title_of(record),
            record.type,
            None,
            record.updated_at,
            None,
            None,
            False,
            record.size,
        )
    return Outline(
        record.path,
        record.id,
        title_of(record),
        record.type,
        metadata.status,
        record.updated_at,
        metadata.expires_at,
        metadata.review_after,
        metadata.status == "conflicted" or bool(metadata.conflicts_with),
        record.size,
    )


def title_of(record: Record) -> str:
    """The body's first line with text, without heading signs; the file's name where there is none."""
    for line in record.body[:_TITLE_BYTES].decode("utf-8", "ignore").lstrip("\ufeff").splitlines():
        text = line.strip().lstrip("#").strip()
        if text:
            return text[:_TITLE_CHARACTERS]
    return record.path.rpartition("/")[2]
