"""The versions of a memory, read from Git: every commit that changed its file, wherever the file lay."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final
from urllib.parse import unquote

from dsh_memory.api.mapping import memory_of
from dsh_memory.api.values import Memory
from dsh_memory.environment import format_instant
from dsh_memory.records import Record, read_record
from dsh_memory.repository.git import GitFailed
from dsh_memory.repository.objects import read_blobs
from dsh_memory.repository.opening import Repository

_FORMAT: Final = "%x01%H%x02%ct%x02%B"
_TRAILER: Final = re.compile(r"^(Memory-Operation|Memory-Agent): (.*)$", re.MULTILINE)
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
    answer = repo.git.run(
        "log",
        f"--max-count={most}",
        "--raw",
        "--no-abbrev",
        "-z",
        f"--format={_FORMAT}",
        "HEAD",
        "--",
        *_places(memory.file),
    )
    found: list[tuple[str, str, dict[str, str], str, str]] = []
    for entry in answer.split(b"\x01")[1:]:
        head, *changes = entry.split(b"\0")
        commit, seconds, message = head.decode("utf-8", "replace").split("\x02", 2)
        at = format_instant(datetime.fromtimestamp(int(seconds), UTC))
        trailers = {name: unquote(value) for name, value in _TRAILER.findall(message)}
        fields = [change for change in changes if change.strip()]
        for facts, path in zip(fields[::2], fields[1::2], strict=False):
            blob = facts.split()[3].decode("ascii")
            if blob.strip("0"):
                found.append((commit, at, trailers, blob, os.fsdecode(path)))
    blobs = _present_blobs(repo, [blob for *_, blob, _ in found])
    result: list[Version] = []
    for commit, at, trailers, blob, file in found:
        record = read_record(file, blobs[blob]) if blob in blobs else None
        if isinstance(record, Record) and record.id == memory.id:
            result.append(
                Version(
                    commit,
                    at,
                    trailers.get("Memory-Operation"),
                    trailers.get("Memory-Agent"),
                    memory_of(record),
                )
            )
    return result


def _places(file: str) -> list[str]:
    """The files in which the record may have lain: its own, and its place in or out of archive/."""
    inside = file.removeprefix("archive/")
    return [file, inside if inside != file else f"archive/{file}"]


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
