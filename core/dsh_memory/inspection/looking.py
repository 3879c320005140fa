"""One look at the memory: everything that overview, lists and plans are made from, read at one moment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from dsh_memory.environment import parse_instant
from dsh_memory.errors import MemoryFailure, OperationInProgress
from dsh_memory.inspection.values import (
    ActiveRunFact,
    LockFact,
    PreviewRow,
    Refusal,
    UsageFact,
)
from dsh_memory.inspection.visiting import Visit
from dsh_memory.records import Malformed
from dsh_memory.records.outline import Outline
from dsh_memory.repository.catalog import keep_contents, recall_contents
from dsh_memory.repository.git_locks import leftover_locks
from dsh_memory.repository.lock import read_active_run, read_lock
from dsh_memory.repository.origin_stage import find_stage_folders
from dsh_memory.repository.previews import Preview, list_previews
from dsh_memory.repository.usage import read_usage as read_sidecar
from dsh_memory.repository.view import Head, in_progress, survey_with_outlines

# Git holds its locks for moments; a commit of the largest memory takes seconds.
_OLD_LOCK_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why nothing at all may be written now: a machine reason and a sentence."""

    detail: str
    sentence: str


@dataclass(frozen=True, slots=True)
class Look:
    """What one look found; `items` are all record files by path, `dirty_paths` are sorted.

    `leftovers` are what dead processes left: Git's lock files, and folders of the origin's unfinished clear.
    """

    head: Head
    items: tuple[Outline | Malformed, ...]
    data_file_count: int
    dirty_paths: tuple[str, ...]
    usage: Mapping[str, UsageFact]
    usage_failure: Refusal | None
    previews: tuple[PreviewRow, ...]
    broken_previews: tuple[str, ...]
    lock: LockFact | None
    active_run: ActiveRunFact | None
    obstacle: Obstacle | None
    leftovers: tuple[str, ...]


def look(visit: Visit) -> Look:
    """Reads the whole memory once."""
    repository, cache, known = visit.repository, visit.memo.records, visit.memo.outlines
    recall_contents(repository, cache)
    known.recall(repository)
    payload, outlines = survey_with_outlines(repository, visit.now, cache, known)
    keep_contents(repository, cache)
    known.keep(repository)
    items: list[Outline | Malformed] = [*outlines, *payload.malformed]
    usage, usage_failure = read_usage(visit)
    previews = list_previews(visit.repository.root, visit.now, visit.memo.previews)
    return Look(
        head=payload.head,
        items=tuple(sorted(items, key=lambda item: item.path)),
        data_file_count=payload.data_file_count,
        dirty_paths=tuple(sorted(payload.dirty)),
        usage=usage,
        usage_failure=usage_failure,
        previews=tuple(preview_row(preview) for preview in previews.pending),
        broken_previews=previews.broken,
        lock=lock_fact(visit),
        active_run=active_run_fact(visit),
        obstacle=obstacle_of(visit, payload.head),
        leftovers=leftovers_of(visit),
    )


def read_usage(visit: Visit) -> tuple[dict[str, UsageFact], Refusal | None]:
    """The usage counts by path; none, and why, where the sidecar cannot be read."""
    try:
        usage = read_sidecar(visit.repository.root)
    except MemoryFailure as failure:
        return {}, refusal_of(failure)
    return {
        path: UsageFact(
            usage_count=entry.usage_count,
            prior_usage_count=entry.prior_usage_count,
            generation=entry.generation,
            last_usage=parse_instant(entry.last_usage),
        )
        for path, entry in usage.records.items()
    }, None


def preview_row(preview: Preview) -> PreviewRow:
    """A pending preview as a row."""
    return PreviewRow(
        preview_id=preview.preview_id,
        created_at=preview.created,
        expires_at=preview.expires,
        candidate_sessions=preview.candidate_sessions,
        changed_paths=preview.changed_paths,
    )


def lock_fact(visit: Visit) -> LockFact | None:
    """Who holds the operation lock."""
    lock = read_lock(visit.repository.root, visit.now)
    if lock is None:
        return None
    started_at = parse_instant(lock.started_at)
    return LockFact(lock.operation, lock.pid, lock.run_id, started_at, lock.active, lock.stale_reason)


def active_run_fact(visit: Visit) -> ActiveRunFact | None:
    """The run on its way, or the one whose process is gone."""
    run = read_active_run(visit.repository.root, visit.now)
    if run is None:
        return None
    return ActiveRunFact(
        run_id=run.run_id,
        operation=run.operation,
        phase=run.phase,
        pid=run.pid,
        started_at=parse_instant(run.started_at),
        interrupted=run.state == "interrupted",
    )


def obstacle_of(visit: Visit, head: Head) -> Obstacle | None:
    """What in the repository's state refuses every write, in the words of the writers."""
    operation = in_progress(visit.repository)
    if operation is not None:
        sentence = f"A {operation} is in progress; finish or abort it in Git first."
        return Obstacle(f"{operation}-in-progress", sentence)
    if head.branch is None:
        return Obstacle("detached-head", "HEAD is detached: no branch would keep the change.")
    if head.commit is None:
        return Obstacle("unborn-head", "The repository has no commit yet.")
    return None


def refusal_of(failure: MemoryFailure) -> Refusal:
    """A failure as a value."""
    return Refusal(failure.code, failure.detail, failure.message, failure.hint)


def leftovers_of(visit: Visit) -> tuple[str, ...]:
    """What dead processes left beside a run, by name; a lock file counts once no living git would hold it."""
    found = find_stage_folders(visit.repository.root)
    for path in leftover_locks(visit.repository):
        try:
            age = visit.now.timestamp() - os.lstat(path).st_mtime
        except FileNotFoundError:
            continue
        if age > _OLD_LOCK_SECONDS:
            found.append(os.path.relpath(path, visit.repository.root.path))
    return tuple(found)


def busy(lock: LockFact | None) -> Refusal | None:
    """The refusal that every write meets while a live holder has the lock."""
    if lock is None or not lock.active:
        return None
    holder = f"{lock.operation}, process {lock.pid}" if lock.operation and lock.pid else "another program"
    return refusal_of(
        OperationInProgress(f"Memory is being changed right now ({holder}).", detail="lock-held")
    )
