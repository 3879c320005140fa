"""`rollback`: a journaled run is undone by a new commit with the payload from before it."""

from __future__ import annotations

from typing import Any

from dsh_memory.errors import RollbackFailure
from dsh_memory.repository.content import RecordCache
from dsh_memory.repository.failures import TransactionFailed
from dsh_memory.repository.git import GitFailed
from dsh_memory.repository.journal import Journal, RunRecord, validate_run_id
from dsh_memory.repository.lock import Clock
from dsh_memory.repository.mutation import answering, transaction
from dsh_memory.repository.objects import FILE_MODES, Entry, is_object_id, payload_of
from dsh_memory.repository.opening import Repository
from dsh_memory.repository.states import difference
from dsh_memory.repository.transaction import Change, Transaction

_CONFLICTS = ("head-moved", "live-memory-changed")


def rollback(
    repo: Repository,
    clock: Clock,
    run_id: object,
    *,
    expected_head: str | None = None,
    cache: RecordCache | None = None,
) -> dict[str, Any]:
    """Undoes an applied run and answers the contract's value; raises RollbackFailure.

    The payload must be the run's own still, by content, and not be dirty: nothing newer is lost.
    """
    if not isinstance(run_id, str) or not validate_run_id(run_id):
        raise _not_found()
    with (
        answering(_refusal),
        transaction(repo, clock, "rollback", expected_head=expected_head, cache=cache) as changing,
    ):
        before, after = _payloads_around(changing, _applied_run(repo, run_id))
        # guard: rollback-conflict
        if after != changing.view.committed:
            raise RollbackFailure(
                "rollback-conflict", "Newer writes changed the memory after that run.", detail="newer-writes"
            )
        # guard: rollback-dirty
        if changing.view.dirty:
            message = f"{len(changing.view.dirty)} memory files hold edits that are in no commit."
            raise RollbackFailure("rollback-conflict", message, detail="dirty-payload")
        change = Change(difference(after, before), f"DPSK memory rollback: {run_id}")
        run = RunRecord(
            run_id=changing.run_id, operation="rollback", status="rolled_back", rolled_back_run_id=run_id
        )
        applied = changing.apply(change, run)
        return {
            "rollbackCommit": applied.apply_commit,
            "runId": run_id,
            "rollbackRunId": changing.run_id,
            "changedPaths": list(applied.run.changed_paths),
        }


def _applied_run(repo: Repository, run_id: str) -> RunRecord:
    run = Journal(repo.root).find(run_id)
    if run is None:
        raise _not_found()
    if run.status != "applied":
        raise _not_applicable("Only a run with status applied can be rolled back.", "not-applied")
    return run


def _payloads_around(changing: Transaction, run: RunRecord) -> tuple[dict[str, Entry], dict[str, Entry]]:
    """The payload before and after the run, from its two commits."""
    payloads = []
    for commit in (run.recovery_commit, run.apply_commit):
        if commit is None or not is_object_id(commit, changing.repo.object_format):
            raise _not_applicable("The run's record names no commits.", "no-commits")
        try:
            payloads.append(payload_of(changing.git, commit))
        except GitFailed:
            raise _not_applicable(
                "A commit of the run is not in this repository.", "commit-missing"
            ) from None
    before, after = payloads
    if any(entry.mode not in FILE_MODES for entry in before.values()):
        raise _not_applicable("The memory before the run held links.", "links")
    return before, after


def _not_found() -> RollbackFailure:
    return RollbackFailure("rollback-run-not-found", "There is no such run in the journal.")


def _not_applicable(message: str, detail: str) -> RollbackFailure:
    return RollbackFailure("rollback-not-applicable", message, detail=detail)


def _refusal(failure: TransactionFailed) -> RollbackFailure:
    code = "rollback-conflict" if failure.detail in _CONFLICTS else "rollback-failed"
    return RollbackFailure(code, failure.message, detail=failure.detail)
