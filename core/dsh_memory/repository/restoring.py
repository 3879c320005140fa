"""One version of a record brought back from Git: a new commit, never a step back in history."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from dsh_memory.environment import format_instant
from dsh_memory.errors import PreviewFailure, RepoUnavailable, RestoreFailure
from dsh_memory.records import Record, edit, read_record
from dsh_memory.repository.changes import is_payload_path
from dsh_memory.repository.content import RecordCache
from dsh_memory.repository.editing import write_paths
from dsh_memory.repository.git import SealedGit
from dsh_memory.repository.lock import Clock
from dsh_memory.repository.objects import FILE_MODES, read_blobs
from dsh_memory.repository.opening import Repository
from dsh_memory.repository.refs import contains
from dsh_memory.repository.versions import places_of
from dsh_memory.repository.view import read_head

_COMMIT: Final = re.compile(r"[0-9a-f]{7,64}")


@dataclass(frozen=True, slots=True)
class Restoration:
    """What restoring a version writes: `files` go from the bytes of HEAD to the new ones, None is no file.

    `place` is where the version lay, and where it will lie again.
    """

    head: str
    commit: str
    place: str
    before: dict[str, bytes | None]
    after: dict[str, bytes | None]
    record: Record | None


def restore_record(
    repo: Repository,
    clock: Clock,
    path: str,
    commit: str,
    *,
    expected_head: str | None = None,
    cache: RecordCache | None = None,
) -> dict[str, Any]:
    """Writes a record as it was at `commit`, as one journaled run; in or out of the archive, as it lay then.

    A memory of the API gets a version number of its own, so that no client mistakes it for the old one. Raises
    RestoreFailure, ChangeRefused for a version that breaks a rule of today, or RepoUnavailable; the value: status
    (applied or no_change), runId, path, restoredCommit, changedPaths, recoveryCommit, applyCommit.
    """
    wanted = restoration(repo, path, commit, clock())
    # guard: restore-bound-to-head
    if expected_head is not None and wanted.head != expected_head:
        raise _moved()
    try:
        written = write_paths(
            repo, clock, wanted.after, expected=wanted.before, message=_message(wanted), cache=cache
        )
    except PreviewFailure as failure:
        raise RestoreFailure(
            "restore-conflict",
            "The record was edited outside or has changed meanwhile; nothing was restored.",
            detail="dirty-payload",
        ) from failure
    except RepoUnavailable as failure:
        if failure.detail == "head-moved":
            raise _moved() from failure
        raise
    return {**written, "path": wanted.place, "restoredCommit": wanted.commit}


def restoration(repo: Repository, path: str, commit: str, now: datetime) -> Restoration:
    """What restoring would write now; raises RestoreFailure for what is no version in HEAD's history."""
    if not is_payload_path(path) or _COMMIT.fullmatch(commit) is None:
        raise RestoreFailure("restore-invalid-request", "There is no such record or commit.")
    head = read_head(repo).commit
    known = None if head is None else _full_id(repo.git, commit)
    # guard: version-in-history (what a purge took out of history may still lie in the object store)
    if head is None or known is None or not contains(repo.git, head, known):
        raise RestoreFailure("restore-version-not-found", "The memory's history has no such commit.")
    then, current = (_files_at(repo, each, places_of(path)) for each in (known, head))
    place = path if path in then else next(iter(then), None)
    if place is None or (place != path and path in current and _id(place, then) != _id(path, current)):
        raise RestoreFailure("restore-version-not-found", "The record did not exist at that commit.")
    identity = _id(place, then)
    # guard: restore-over-another-record (its archive twin may be a record of its own)
    if place != path and place in current and _id(place, current) != identity:
        raise RestoreFailure(
            "restore-conflict", "Another record lies where this one lay.", detail="place-taken"
        )
    before = {
        each: current.get(each)
        for each in places_of(path)
        if each == place or (each in current and _id(each, current) == identity)
    }
    if before == {**dict.fromkeys(before), place: then[place]}:
        return Restoration(head, known, place, before, dict(before), None)
    data, record = _as_new_version(place, then[place], before, now)
    return Restoration(head, known, place, before, {**dict.fromkeys(before), place: data}, record)


def _as_new_version(
    place: str, version: bytes, before: dict[str, bytes | None], now: datetime
) -> tuple[bytes, Record | None]:
    """The bytes to write, and the record that they are where it is a memory of the API."""
    old = read_record(place, version)
    number = _memory_version(old)
    if not isinstance(old, Record) or number is None:
        return version, None
    present = (read_record(path, data) for path, data in before.items() if data is not None)
    newest = max((_memory_version(each) or 0 for each in present), default=0)
    instant = format_instant(now)
    data = edit(
        version,
        {
            "memory_version": max(number, newest) + 1,
            "memory_updated_at": instant,
            "updated_at": instant[:10],
        },
    )
    record = read_record(place, data)
    return data, record if isinstance(record, Record) else None


def _memory_version(record: object) -> int | None:
    metadata = record.metadata if isinstance(record, Record) else None
    number = None if metadata is None else metadata.extra.get("memory_version")
    return number if type(number) is int and number > 0 else None


def _message(wanted: Restoration) -> str:
    trailers = ["Memory-Operation: restore-version", f"Restored-From: {wanted.commit}"]
    if wanted.record is not None:
        trailers.insert(0, f"Memory-Version: {_memory_version(wanted.record)}")
        trailers.insert(0, f"Memory-Id: {wanted.record.id}")
    return "\n".join(trailers)


def _full_id(git: SealedGit, commit: str) -> str | None:
    answer = git.run(
        "rev-parse", "--verify", "--quiet", "--end-of-options", f"{commit}^{{commit}}", accept=(0, 1, 128)
    )
    return answer.decode("ascii").strip() or None


def _files_at(repo: Repository, commit: str, places: tuple[str, ...]) -> dict[str, bytes]:
    answer = repo.git.run("ls-tree", "-z", "--full-tree", commit, "--", *places)
    files: dict[str, str] = {}
    for line in os.fsdecode(answer).split("\0")[:-1]:
        facts, _, path = line.partition("\t")
        mode, _, blob = facts.split(" ")
        if mode in FILE_MODES:
            files[path] = blob
    blobs = read_blobs(repo.git, files.values())
    return {path: blobs[blob] for path, blob in files.items()}


def _id(path: str, files: dict[str, bytes]) -> str | None:
    record = read_record(path, files[path])
    # A legacy record's id follows from its path, which is the same in and out of the archive here.
    return record.id if isinstance(record, Record) and not record.is_legacy else None


def _moved() -> RestoreFailure:
    return RestoreFailure(
        "restore-conflict", "Memory changed since you looked; look again.", detail="head-moved"
    )
