"""`clear`: the payload becomes an empty summary and three empty folders; Git keeps all that was there."""

from __future__ import annotations

from typing import Any

from dsh_memory.errors import ClearFailure
from dsh_memory.repository.content import RecordCache
from dsh_memory.repository.descriptors import Folders
from dsh_memory.repository.failures import Step, TransactionFailed
from dsh_memory.repository.journal import RunRecord
from dsh_memory.repository.layout import RECORD_FOLDERS, SUMMARY
from dsh_memory.repository.lock import Clock
from dsh_memory.repository.mutation import answering, transaction
from dsh_memory.repository.opening import Repository
from dsh_memory.repository.transaction import Change, Transaction

_CODES: dict[Step, str] = {
    "ready": "clear-failed",
    "checkpoint": "checkpoint-failed",
    "stage": "clear-failed",
    "commit": "commit-failed",
}


def clear(
    repo: Repository, clock: Clock, *, expected_head: str | None = None, cache: RecordCache | None = None
) -> dict[str, Any]:
    """Empties the payload in one journaled run and answers the contract's value; raises ClearFailure."""
    with (
        answering(_refusal),
        transaction(repo, clock, "clear", expected_head=expected_head, cache=cache) as changing,
    ):
        holding = _files_with_data(changing)
        if not holding:
            return _value(0, None, None, None)
        empty = changing.entry_of(b"")
        target = {**dict.fromkeys(changing.live_payload()), SUMMARY: empty}
        change = Change(
            target,
            "DPSK memory cleared",
            contents={empty.blob: b""},
            captured=changing.view.dirty,
            checkpoint="DPSK memory recovery checkpoint",
        )
        run = RunRecord(run_id=changing.run_id, operation="clear", status="applied")
        applied = changing.apply(change, run)
        with Folders(repo.root) as folders:
            for name in RECORD_FOLDERS:
                folders.get(name, create=True)
        return _value(len(holding), applied.recovery_commit, applied.apply_commit, changing.run_id)


def _files_with_data(changing: Transaction) -> set[str]:
    """Paths of files that are not empty in the worktree or in HEAD: a worktree emptied by hand is not
    empty."""
    empty = changing.entry_of(b"").blob
    live = {path for path, file in changing.view.files.items() if file.size}
    return live | {path for path, entry in changing.view.committed.items() if entry.blob != empty}


def _value(
    count: int, recovery_commit: str | None, clear_commit: str | None, run_id: str | None
) -> dict[str, Any]:
    return {
        "alreadyEmpty": count == 0,
        "clearedFileCount": count,
        "recoveryCommit": recovery_commit,
        "clearCommit": clear_commit,
        "runId": run_id,
    }


def _refusal(failure: TransactionFailed) -> ClearFailure:
    return ClearFailure(_CODES[failure.step], failure.message, detail=failure.detail)
