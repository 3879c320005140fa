"""The versions of one record in Git: every commit that changed its file, in the archive or out of it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final
from urllib.parse import unquote

from dsh_memory.repository.git import SealedGit

_FORMAT: Final = "%H%x00%ct%x00%an%x00%B%x00"
_FIELDS: Final = 4
_TRAILER: Final = re.compile(r"^(Memory-(?:Id|Version|Operation|Agent|Door)): (.*)$", re.MULTILINE)
_ARCHIVE: Final = "archive/"


@dataclass(frozen=True, slots=True)
class FileCommit:
    """A commit that changed a record's file; `blobs` holds what it left at each place, None for nothing.

    `trailers` are those that a write of the memory API leaves, in order.
    """

    commit: str
    committed_at: datetime
    author: str
    subject: str
    trailers: tuple[tuple[str, str], ...]
    blobs: Mapping[str, str | None]

    def trailer(self, name: str) -> str | None:
        """The last trailer of that name."""
        return dict(self.trailers).get(name)

    def version_of(self, memory_id: str) -> int | None:
        """The version of a memory that the commit says it made."""
        named: str | None = None
        for name, value in self.trailers:
            if name == "Memory-Id":
                named = value
            elif name == "Memory-Version" and named == memory_id and value.isdecimal() and value.isascii():
                return int(value)
        return None


def places_of(path: str) -> tuple[str, ...]:
    """The files in which a record may lie: `path`, and its place in the archive or out of it."""
    if "/" not in path:
        return (path,)
    outside = path.removeprefix(_ARCHIVE)
    return path, outside if outside != path else f"{_ARCHIVE}{path}"


def commits_of_record(git: SealedGit, head: str, path: str, limit: int) -> list[FileCommit]:
    """The newest commits that changed a record, newest first; one git process."""
    output = git.run(
        *("log", "-z", "--raw", "--no-abbrev", "--no-renames", "--no-show-signature", "--encoding=UTF-8"),
        *(f"--max-count={limit}", f"--format={_FORMAT}", head, "--", *places_of(path)),
    )
    pieces = output.split(b"\0")
    found: list[FileCommit] = []
    position = 0
    while position < len(pieces):
        if not pieces[position].strip():
            position += 1
            continue
        commit, seconds, author, message = (
            piece.decode("utf-8", "replace") for piece in pieces[position : position + _FIELDS]
        )
        position += _FIELDS
        blobs: dict[str, str | None] = {}
        # A commit begins with its id, a change with a colon: no message can be taken for either.
        while position < len(pieces) and (facts := pieces[position].strip())[:1] in (b"", b":"):
            position += 1
            if facts:
                blob = facts.split()[3].decode("ascii")
                blobs[os.fsdecode(pieces[position])] = blob if blob.strip("0") else None
                position += 1
        trailers = tuple((name, unquote(value)) for name, value in _TRAILER.findall(message))
        subject = message.lstrip().partition("\n")[0]
        found.append(FileCommit(commit, instant_of(int(seconds)), author, subject, trailers, blobs))
    return found


def instant_of(seconds: int) -> datetime:
    """The instant of a commit; the epoch for one that no clock shows, since a commit may claim any."""
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):
        return datetime.fromtimestamp(0, UTC)
