"""The versions of a memory, read from Git: every commit that changed its file, wherever the file lay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from dsh_memory.api.mapping import memory_of
from dsh_memory.api.values import Memory
from dsh_memory.environment import format_instant
from dsh_memory.records import Record, read_record
from dsh_memory.repository.git import GitFailed
from dsh_memory.repository.objects import read_blobs
from dsh_memory.repository.opening import Repository
from dsh_memory.repository.versions import commits_of_record

_MOST: Final = 200


@dataclass(frozen=True, slots=True)
class Version:
    """One state of a memory; `operation` and `agent` are what the commit's trailers say, None for other
    hands'.
    """

    commit: str
    at: str
    operation: str | None
    agent: str | None
    memory: Memory


def versions(repo: Repository, memory: Memory, *, most: int = _MOST) -> list[Version]:
    """The states of a memory, newest first, `most` at most; raises GitFailed."""
    commits = commits_of_record(repo.git, "HEAD", memory.file, most)
    found = [(each, blob, file) for each in commits for file, blob in each.blobs.items() if blob is not None]
    blobs = _present_blobs(repo, [blob for _, blob, _ in found])
    result: list[Version] = []
    for commit, blob, file in found:
        record = read_record(file, blobs[blob]) if blob in blobs else None
        if isinstance(record, Record) and record.id == memory.id:
            result.append(
                Version(
                    commit.commit,
                    format_instant(commit.committed_at),
                    commit.trailer("Memory-Operation"),
                    commit.trailer("Memory-Agent"),
                    memory_of(record),
                )
            )
    return result


def _present_blobs(repo: Repository, blobs: list[str]) -> dict[str, bytes]:
    try:
        return read_blobs(repo.git, blobs)
    except GitFailed:
        # A shallow clone, or a partial one: the versions that are here are better than none.
        found: dict[str, bytes] = {}
        for blob in set(blobs):
            try:
                found |= read_blobs(repo.git, [blob])
            except GitFailed:
                continue
        return found
