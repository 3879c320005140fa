"""Journaled runs for a person: what later records say of them, what they changed, how they can be undone."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from dsh_memory.environment import parse_instant
from dsh_memory.errors import RollbackFailure
from dsh_memory.inspection.changes import TreeChange, diff_of, tree_changes, with_sizes
from dsh_memory.inspection.looking import busy, lock_fact, obstacle_of, refusal_of
from dsh_memory.inspection.values import FileDiff, Refusal, RunRow, RunView
from dsh_memory.inspection.visiting import Visit
from dsh_memory.inspection.wording import counted
from dsh_memory.repository.git import GitFailed, SealedGit
from dsh_memory.repository.journal import Journal, RunRecord
from dsh_memory.repository.layout import PAYLOAD
from dsh_memory.repository.objects import is_object_id, read_blobs
from dsh_memory.repository.opening import Repository
from dsh_memory.repository.view import PayloadView, payload_view


def run_rows(
    journal: Journal, limit: int | None, operation: str | None = None, status: str | None = None
) -> tuple[RunRow, ...]:
    """The newest runs that fit the filters, each with what later records say of it."""
    records = journal.runs(sys.maxsize if limit is None else limit, operation=operation, status=status)
    return rows_of(journal, records)


def rows_of(journal: Journal, records: Iterable[RunRecord]) -> tuple[RunRow, ...]:
    """Rows of run records, with what the whole journal says of them."""
    records = list(records)
    undone_by: dict[str, str] = {}
    recovered_by: dict[str, str] = {}
    if records:
        for later in journal.runs(sys.maxsize, operation="rollback"):
            if later.rolled_back_run_id and later.status == "rolled_back":
                undone_by.setdefault(later.rolled_back_run_id, later.run_id)
        for later in journal.runs(sys.maxsize, operation="recover"):
            if later.recovered_run_id:
                recovered_by.setdefault(later.recovered_run_id, later.run_id)
    return tuple(
        RunRow(
            run_id=record.run_id,
            operation=record.operation,
            status=record.status,
            started_at=record.started,
            finished_at=parse_instant(record.finished_at),
            duration_ms=record.duration_ms,
            phase=record.phase,
            changed_path_count=record.changed_path_count or 0,
            error_code=record.error_code,
            recovery_commit=record.recovery_commit,
            apply_commit=record.apply_commit,
            rolled_back_by=undone_by.get(record.run_id),
            recovered_by=recovered_by.get(record.run_id),
            undoes=record.rolled_back_run_id,
            recovers=record.recovered_run_id,
        )
        for record in records
    )


def find_run(journal: Journal, run_id: str) -> RunRecord:
    """The run of that id; RollbackFailure `rollback-run-not-found`."""
    record = journal.find(run_id)
    if record is None:
        raise RollbackFailure("rollback-run-not-found", "The journal has no run of that id.")
    return record


def run_view(visit: Visit, run_id: str) -> RunView:
    """One run, whole, in a constant number of git processes."""
    record = find_run(visit.journal, run_id)
    row = rows_of(visit.journal, [record])[0]
    payload = payload_view(visit.repository, visit.memo.records)
    changes = changes_of(visit.repository, record)
    refusal, newer_writes = _undo_refusal(visit, row, payload, commits_known=changes is not None)
    return RunView(
        row=row,
        journal=tuple(record.to_json().items()),
        files=with_sizes(visit.repository.git, changes or []),
        files_known=changes is not None,
        refusal=refusal,
        newer_writes=newer_writes,
        head=payload.head.commit,
    )


def run_diff(visit: Visit, run_id: str, path: str) -> FileDiff:
    """Both sides of one file that a run changed; RollbackFailure where the run did not change it."""
    git = visit.repository.git
    for change in changes_of(visit.repository, find_run(visit.journal, run_id)) or []:
        if change.path == path:
            contents = read_blobs(git, [blob for blob in (change.old_blob, change.new_blob) if blob])
            old = None if change.old_blob is None else contents[change.old_blob]
            new = None if change.new_blob is None else contents[change.new_blob]
            return diff_of(path, old, new)
    sentence = "That run did not change this file."
    raise RollbackFailure("rollback-not-applicable", sentence, detail="file-not-changed")


def changes_of(repo: Repository, record: RunRecord) -> list[TreeChange] | None:
    """What a run changed, between its two commits; None where it names none or they are gone."""
    recovery, applied = record.recovery_commit, record.apply_commit
    if recovery is None or applied is None:
        return [] if record.apply_commit is None else None
    # Ids come from a file that other programs write.
    if not is_object_id(recovery, repo.object_format) or not is_object_id(applied, repo.object_format):
        return None
    try:
        return tree_changes(repo.git, recovery, applied)
    except GitFailed:
        return None


def _undo_refusal(
    visit: Visit, row: RunRow, payload: PayloadView, *, commits_known: bool
) -> tuple[Refusal | None, int]:
    """Why a run cannot be rolled back now, and how many payload commits stand above it."""
    git, head = visit.repository.git, payload.head.commit
    if row.status != "applied" or row.apply_commit is None:
        return _refusal("rollback-not-applicable", "not-applied", _why_not_applied(row)), 0
    if not commits_known or head is None:
        sentence = "A commit of this run is not in this repository, so there is nothing to go back to."
        return _refusal("rollback-not-applicable", "commit-missing", sentence), 0
    if not _same_payload(git, row.apply_commit, head):
        newer = int(git.run("rev-list", "--count", f"{row.apply_commit}..{head}", "--", *PAYLOAD))
        sentence = f"Newer writes changed memory since: {counted(newer, 'commit')}."
        if row.rolled_back_by:
            sentence = "It has been rolled back already."
        return _refusal("rollback-conflict", "newer-writes", sentence), newer
    if payload.dirty:
        sentence = f"{counted(len(payload.dirty), 'memory file')} edited outside and not saved."
        return _refusal("rollback-conflict", "dirty-payload", sentence), 0
    obstacle = obstacle_of(visit, payload.head)
    if obstacle is not None:
        return _refusal("rollback-failed", obstacle.detail, obstacle.sentence), 0
    return busy(lock_fact(visit)), 0


def _why_not_applied(row: RunRow) -> str:
    if row.operation == "rollback":
        return "It is a rollback itself; what it undid can be applied again only by a new run."
    if row.status == "no_change":
        return "It changed nothing, so there is nothing to undo."
    if row.status in ("failed", "interrupted"):
        return f"It {'failed' if row.status == 'failed' else 'was interrupted'}, so it left nothing to undo."
    return "Only an applied run can be rolled back."


def _refusal(code: str, detail: str, sentence: str) -> Refusal:
    return refusal_of(RollbackFailure(code, sentence, detail=detail))


def _same_payload(git: SealedGit, one: str, other: str) -> bool:
    return not git.run("diff-tree", "-r", "-z", "--name-only", "--no-renames", one, other, "--", *PAYLOAD)
