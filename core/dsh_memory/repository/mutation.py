"""The way into every change of memory: the lock, recovery of whoever died before, then one transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from dsh_memory.errors import MemoryFailure, RepoUnavailable
from dsh_memory.repository.content import RecordCache
from dsh_memory.repository.failures import TransactionFailed, failing
from dsh_memory.repository.journal import new_run_id
from dsh_memory.repository.lock import Clock, OperationLock, hold
from dsh_memory.repository.maintenance import start_if_due
from dsh_memory.repository.opening import Repository
from dsh_memory.repository.pending_log import mark_of
from dsh_memory.repository.recovery import Recovery, resolve_interrupted, settle
from dsh_memory.repository.transaction import Transaction


@contextmanager
def answering(refusal: Callable[[TransactionFailed], MemoryFailure]) -> Iterator[None]:
    """Answers a failed transaction, and whatever the system refuses, with a code of the calling method."""
    try:
        with failing("ready"):
            yield
    except TransactionFailed as failure:
        raise refusal(failure) from failure


@contextmanager
def locked(
    repo: Repository, clock: Clock, operation: str, run_id: str | None = None
) -> Iterator[OperationLock]:
    """Holds the operation lock, after any dead run was recovered and every acknowledged write committed; the
    active run is recorded while it is held."""
    _fold_pending(repo, clock)
    with hold(repo.root, operation, run_id or new_run_id(clock()), clock) as lock:
        settle(repo, clock, lock)
        lock.record(lock.run)
        yield lock
    start_if_due(repo)


@contextmanager
def transaction(
    repo: Repository,
    clock: Clock,
    operation: str,
    *,
    run_id: str | None = None,
    expected_head: str | None = None,
    cache: RecordCache | None = None,
) -> Iterator[Transaction]:
    """One transaction under the lock; raises TransactionFailed, detail head-moved, if HEAD is not the one
    expected."""
    with locked(repo, clock, operation, run_id) as lock, Transaction(repo, clock, lock, cache) as changing:
        checked_head(changing, expected_head)
        yield changing


def checked_head(changing: Transaction, expected_head: str | None) -> None:
    """Raises TransactionFailed, detail head-moved, if HEAD is not the one that a plan was made for."""
    # guard: bound-to-head
    if expected_head is not None and changing.head != expected_head:
        raise TransactionFailed("ready", "head-moved", "Memory changed since you looked; look again.")


def recover(repo: Repository, clock: Clock) -> Recovery:
    """Recovers every dead run and resolves every interrupted one of the journal; what was done, which may be
    nothing.

    Raises OperationInProgress, UnsafeLayout, or RepoUnavailable with the reason why it cannot be done now.
    """
    with answering(_refusal), hold(repo.root, "recover", new_run_id(clock()), clock) as lock:
        recovery = settle(repo, clock, lock)
        recovery.resolved = resolve_interrupted(repo, clock, lock)
    _fold_pending(repo, clock)
    return recovery


def _fold_pending(repo: Repository, clock: Clock) -> None:
    if mark_of(repo.git_dir) is not None:
        from dsh_memory.repository.folding import fold_pending

        fold_pending(repo, clock)


def _refusal(failure: TransactionFailed) -> RepoUnavailable:
    return RepoUnavailable(failure.message, detail=failure.detail)
