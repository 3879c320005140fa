"""`migrateLegacy`: records without front matter get one, their bytes below it unchanged."""

from __future__ import annotations

from typing import Any

from dsh_memory.errors import InterruptedRun, MigrationFailure
from dsh_memory.records.legacy import generated_header
from dsh_memory.repository.content import RecordCache
from dsh_memory.repository.failures import TransactionFailed, failing
from dsh_memory.repository.journal import Journal, RunRecord, new_run_id
from dsh_memory.repository.legacy_dates import legacy_dates
from dsh_memory.repository.lock import Clock, hold, read_dead_run
from dsh_memory.repository.mutation import answering, checked_head
from dsh_memory.repository.objects import Entry
from dsh_memory.repository.opening import Repository
from dsh_memory.repository.recovery import note_interrupted, settle
from dsh_memory.repository.states import digest_of
from dsh_memory.repository.transaction import Applied, Change, Transaction


def migrate_legacy(
    repo: Repository, clock: Clock, *, expected_head: str | None = None, cache: RecordCache | None = None
) -> dict[str, Any]:
    """Gives every legacy record its generated header in one journaled run and answers the contract's value.

    Malformed files are left alone. Raises MigrationFailure, or InterruptedRun while an older run's death is
    open: `recover`, or any other change, must come first.
    """
    with answering(_refusal), hold(repo.root, "migrate", new_run_id(clock()), clock) as lock:
        if read_dead_run(repo.root, clock()) is not None:
            with failing("ready"):
                dead = note_interrupted(repo, clock, lock)
            raise _interrupted(None if dead is None else dead.run_id)
        settle(repo, clock, lock, resolving=False)
        open_run = Journal(repo.root).state().interrupted
        if open_run is not None:
            raise _interrupted(open_run.run_id)
        lock.record(lock.run)
        with Transaction(repo, clock, lock, cache) as changing:
            checked_head(changing, expected_head)
            return _migrate(changing)


def _migrate(changing: Transaction) -> dict[str, Any]:
    legacy = changing.read_live(changing.view.legacy)
    if not legacy:
        return _value(0, None)
    view = changing.view
    times = {path: (view.blobs[path], view.files[path].mtime_ns) for path in legacy}
    dates = legacy_dates(changing.git, changing.head, times)
    target: dict[str, Entry | None] = {}
    contents: dict[str, bytes] = {}
    migrated: dict[str, bytes] = {}
    for path, data in legacy.items():
        migrated[path] = generated_header(path, *dates[path]) + data
        entry = changing.entry_of(migrated[path], like=changing.live(path))
        target[path] = entry
        contents[entry.blob] = migrated[path]
    change = Change(
        target,
        f"DPSK memory sync applied: {changing.run_id}",
        contents=contents,
        captured=view.dirty,
        checkpoint=f"DPSK memory recovery checkpoint: {changing.run_id}",
    )
    run = RunRecord(
        run_id=changing.run_id, operation="migrate", status="applied", staging_digest=digest_of(migrated)
    )
    return _value(len(legacy), changing.apply(change, run))


def _value(count: int, applied: Applied | None) -> dict[str, Any]:
    return {
        "dryRun": False,
        "status": "no_change" if applied is None else "applied",
        "legacyCount": count,
        "migratedCount": count,
        "changedPaths": [] if applied is None else list(applied.run.changed_paths),
        "recoveryCommit": None if applied is None else applied.recovery_commit,
        "applyCommit": None if applied is None else applied.apply_commit,
        "journalCommit": None if applied is None else applied.journal_commit,
        "runId": None if applied is None else applied.run.run_id,
    }


def _interrupted(run_id: str | None) -> InterruptedRun:
    return InterruptedRun("A run was interrupted and has not been recovered.", detail=run_id)


def _refusal(failure: TransactionFailed) -> MigrationFailure:
    return MigrationFailure("migration-failed", failure.message, detail=failure.detail)
