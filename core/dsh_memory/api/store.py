"""The memories of one root in a long-lived process: always fresh to read, and written through one queue.

Writers that come while a commit is being made share the next one's lock and flush: each still gets a commit
of its own, and its answer only after that is durable.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Final

from dsh_memory.api.calm import CalmFolder
from dsh_memory.api.catalogue import Catalogue
from dsh_memory.api.draft import Stale
from dsh_memory.api.failures import ApiFailure
from dsh_memory.api.jobs import Answer, Job, Preparation, Prepared, Replay, Work, check_same
from dsh_memory.api.state import State
from dsh_memory.api.values import Caller
from dsh_memory.api.view import FreshView
from dsh_memory.environment import Environment, utc_now
from dsh_memory.errors import MemoryFailure, OperationInProgress, RepoUnavailable
from dsh_memory.repository.failures import TransactionFailed
from dsh_memory.repository.folding import fold_pending
from dsh_memory.repository.opening import Repository
from dsh_memory.repository.pending_log import PendingWrite, mark_of, opened
from dsh_memory.repository.purge import Purged, purge
from dsh_memory.repository.record_commits import record_writer
from dsh_memory.repository.write_memo import WriteMemo

_LARGEST_BATCH: Final = 64
_REFRESH_INDEX_EVERY: Final = 64
_LARGEST_LOG: Final = 1024 * 1024
_log = logging.getLogger("dsh_memory")


class MemoryStore:
    """Reads and writes the memories of a root; safe to use from many threads.

    What other programs commit is seen at the next read, what they edit without a commit within `max_age`
    seconds.
    """

    def __init__(
        self, environment: Environment, *, clock: Callable[[], datetime] = utc_now, max_age: float = 1.0
    ) -> None:
        self.environment = environment
        self.clock = clock
        self.state = State(environment.state_dir)
        self._view = FreshView(environment, clock, max_age)
        self._preparation = Preparation(environment, clock, self._view, self.state)
        self._memo = WriteMemo()
        self._turn = threading.Condition()
        self._waiting: list[Job] = []
        self._busy = False
        self._unrefreshed = 0
        self._folder = CalmFolder(self._fold)

    def close(self) -> None:
        """Leave nothing open behind, and nothing that waits for its commit if it can be made now."""
        self._folder.close()
        self._fold()
        self.state.close()

    @contextmanager
    def repository(self) -> Iterator[Repository]:
        """The repository, opened anew: a root that was replaced is seen at once."""
        with Repository.open(self.environment) as repo:
            yield repo

    @contextmanager
    def reading(self) -> Iterator[Catalogue]:
        """The memories of now, held still; raises MemoryFailure where the repository cannot be read."""
        with self._view.reading() as catalogue:
            if self._view.pending:
                self._folder.note_found()
            yield catalogue

    def write(
        self,
        caller: Caller,
        operation: str,
        work: Work,
        replay: Replay | None = None,
        *,
        coalesced: bool = False,
    ) -> Answer:
        """The answer of `work`, given once what it saved is durable; with `replay`, a second call gets the
        first answer.

        That is a commit of its own, or with `coalesced` a line in a log that is soon folded into a commit of many.
        Raises what `work` raises, and ApiFailure where the memory cannot be written now.
        """
        job = Job(work, caller, operation, replay, coalesced)
        with self._turn:
            self._waiting.append(job)
        while True:
            with self._turn:
                while self._busy and not job.done:
                    self._turn.wait()
                if job.done:
                    break
                self._busy = True
                batch = self._waiting[:_LARGEST_BATCH]
                del self._waiting[: len(batch)]
            try:
                self._run(batch)
            finally:
                with self._turn:
                    self._busy = False
                    for each in batch:
                        each.done = True
                    self._turn.notify_all()
        if job.error is not None:
            raise job.error
        if job.answer is None:
            raise RuntimeError("a batch ended without an answer")
        return job.answer

    def replayed(self, caller: Caller, replay: Replay) -> Answer | None:
        """The first answer to this key, where it is known for certain; raises conflict for another request."""
        first = self.state.first_answer(caller.key, replay.key, self.clock())
        if first is None:
            return None
        check_same(first, replay)
        return first.answer if first.settled else None

    def purge(self, memory_id: str, tombstones: Mapping[str, bytes]) -> Purged:
        """Erase every version of a memory from history, and all that is kept of it beside Git."""
        with self._turn:
            while self._busy:
                self._turn.wait()
            self._busy = True
        try:
            with Repository.open(self.environment) as repo:
                # First: once the record is gone, nobody could ask for what else is kept of it any more.
                self.state.erase(memory_id)
                purged = purge(repo, self.clock, memory_id, tombstones)
                self._view.forget(repo)
            return purged
        except (MemoryFailure, TransactionFailed) as error:
            raise _failure(error) from error
        finally:
            with self._turn:
                self._busy = False
                self._turn.notify_all()

    def commit_of(self, file: str) -> None:
        """Have Git know the newest text of a file, so that its history can be read."""
        if file in self._view.pending:
            self._fold()

    # --- writing ----------------------------------------------------------------------------------------

    def _run(self, jobs: list[Job]) -> None:
        try:
            with Repository.open(self.environment) as repo:
                size, _ = mark_of(repo.git_dir) or (0, 0)
                if size < _LARGEST_LOG and all(job.coalesced for job in jobs):
                    self._log(repo, jobs)
                else:
                    self._commit(repo, jobs)
        except (MemoryFailure, TransactionFailed, Stale, OSError) as error:
            failure = _failure(error)
            for job in jobs:
                if job.error is None:
                    job.error = failure
        except BaseException as error:
            for job in jobs:
                job.error = job.error or error
            raise

    def _log(self, repo: Repository, jobs: list[Job]) -> None:
        """Acknowledges writes by a line each in the log beside Git."""
        with opened(repo.git_dir) as log:
            prepared = self._preparation.of(repo, jobs)
            if not prepared.writes:
                return
            texts = [
                PendingWrite(
                    write.message,
                    {file: None if data is None else data.decode() for file, data in write.files.items()},
                )
                for write in prepared.writes
            ]
            try:
                log.append(texts)
            except BaseException:
                self.state.settle(prepared.expected, kept=False)
                raise
            self._view.publish_pending(texts)
            self._publish(prepared)
        self._folder.note()

    def _commit(self, repo: Repository, jobs: list[Job]) -> None:
        """Acknowledges writes by a commit each."""
        with record_writer(repo, self.clock, self._memo) as writer:
            prepared = self._preparation.of(repo, jobs)
            if not prepared.writes:
                return
            self._unrefreshed += len(prepared.writes)
            refresh = self._unrefreshed >= _REFRESH_INDEX_EVERY
            try:
                writer.commit(prepared.writes, refresh=refresh)
            except BaseException:
                self.state.settle(prepared.expected, kept=False)
                raise
            self._unrefreshed = 0 if refresh else self._unrefreshed
            self._publish(prepared)

    def _fold(self) -> bool:
        """Commits what waits in the log; whether nothing waits any more."""
        with self._turn:
            while self._busy:
                self._turn.wait()
            self._busy = True
        try:
            with Repository.open(self.environment) as repo:
                if mark_of(repo.git_dir) is None:
                    return True
                fold_pending(repo, self.clock)
                return mark_of(repo.git_dir) is None
        except (MemoryFailure, OSError) as error:
            if isinstance(error, MemoryFailure) and error.detail == "root-missing":
                # No memory, nothing acknowledged.
                return True
            # It is durable where it is; whoever changes this memory next folds it.
            _log.warning("acknowledged writes wait to be committed: %s", error)
            return False
        finally:
            with self._turn:
                self._busy = False
                self._turn.notify_all()

    def _publish(self, prepared: Prepared) -> None:
        self._view.publish(
            (file, record) for _, draft in prepared.drafts for file, record in draft.records.items()
        )
        if prepared.expected:
            # The commits stand; an answer that is not settled is looked up in them at its next replay.
            with suppress(RepoUnavailable):
                self.state.settle(prepared.expected, kept=True)


def _failure(error: Exception) -> ApiFailure:
    if isinstance(error, OperationInProgress | Stale) or (
        isinstance(error, TransactionFailed) and error.detail in ("live-memory-changed", "head-moved")
    ):
        return ApiFailure(
            503,
            "operation_in_progress",
            "Another operation is changing this memory.",
            headers={"Retry-After": "1"},
        )
    return unavailable(error)


def unavailable(error: Exception) -> ApiFailure:
    """The refusal where the repository cannot be used at all; it names no path."""
    detail = getattr(error, "detail", None) or type(error).__name__
    message = f"The memory cannot be used now ({getattr(error, 'code', None) or detail})."
    return ApiFailure(503, "memory_unavailable", message, headers={"Retry-After": "5"})
