"""When a legacy record was made and last changed, from Git, so that every clone migrates to the same bytes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final, NamedTuple

from dsh_memory.repository.git import SealedGit
from dsh_memory.repository.layout import RECORD_FOLDERS

_LOG: Final = (
    "log",
    "-z",
    "--raw",
    "--root",
    "--reverse",
    "--topo-order",
    "--full-history",
    "--diff-merges=first-parent",
    "--no-abbrev",
    "--no-renames",
    "--format=C %at",
)


class LegacyDates(NamedTuple):
    """UTC days as `YYYY-MM-DD`."""

    created_at: str
    updated_at: str


def legacy_dates(
    git: SealedGit, head: str | None, files: Mapping[str, tuple[str, int]]
) -> dict[str, LegacyDates]:
    """The days of each file, given as path -> (blob id of its bytes, mtime in nanoseconds); one git process.

    Created: the author date of the first commit with that path; updated: of the commit that first brought these bytes
    there. What Git does not know is taken from the file's time (`design.md` §5.7).
    """
    created: dict[str, int] = {}
    brought: dict[str, int] = {}
    if head is not None and files:
        for path, blob, seconds in _history(git, head):
            known = files.get(path)
            if known is not None:
                created.setdefault(path, seconds)
                if blob == known[0]:
                    brought.setdefault(path, seconds)
    dates = {}
    for path, (_, mtime_ns) in files.items():
        seconds = mtime_ns // 1_000_000_000
        dates[path] = LegacyDates(_day(created.get(path, seconds)), _day(brought.get(path, seconds)))
    return dates


def _history(git: SealedGit, head: str) -> list[tuple[str, str, int]]:
    """Every (path, blob id that came there, author time in seconds), oldest commit first."""
    found: list[tuple[str, str, int]] = []
    seconds = 0
    tokens = iter(git.run(*_LOG, head, "--", *RECORD_FOLDERS).split(b"\0"))
    for token in tokens:
        facts = token.lstrip(b"\n")
        if facts.startswith(b"C "):
            seconds = int(facts[2:])
        elif facts:
            found.append((os.fsdecode(next(tokens)), facts.split(b" ")[3].decode("ascii"), seconds))
    return found


def _day(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).date().isoformat()
