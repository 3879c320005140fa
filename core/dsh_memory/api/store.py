"""The memories of one root in a long-lived process: always fresh to read, and written through one queue.

Writers that come while a commit is being made share the next one's lock and flush: each still gets a commit
of its own, and its answer only after that is durable.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, NamedTuple

from dsh_memory.api.calm import CalmFolder
from dsh_memory.api.catalogue import Catalogue
from dsh_memory.api.draft import Batch, Draft, Stale
from dsh_memory.api.failures import ApiFailure, conflict
from dsh_memory.api.state import FirstAnswer, State
from dsh_memory.api.values import Caller
from dsh_memory.environment import Environment, utc_now
from dsh_memory.errors import MemoryFailure, OperationInProgress, RepoUnavailable
from dsh_memory.records import Record, read_record
from dsh_memory.repository.allowed_secrets import read_allowed_secrets
from dsh_memory.repository.content import RecordCache
from dsh_memory.repository.failures import TransactionFailed
from dsh_memory.repository.folding import fold_pending
from dsh_memory.repository.opening import Repository
from dsh_memory.repository.pending_log import NAME as PENDING_NAME
from dsh_memory.repository.pending_log import PendingWrite, mark_of, opened, read_pending
from dsh_memory.repository.purge import Purged, purge
from dsh_memory.repository.record_commits import FileWrite, record_writer
from dsh_memory.repository.view import read_records
from dsh_memory.repository.write_memo import WriteMemo

Answer = dict[str, Any]
Work = Callable[[Draft], Answer]

_LARGEST_BATCH: Final = 64
_REFRESH_INDEX_EVERY: Final = 64
_WRITERS_PATIENCE: Final = 10
_LARGEST_LOG: Final = 1024 * 1024
_log = logging.getLogger("dsh_memory")
_CACHE_BYTES: Final = 256 * 1024 * 1024
_Mark = tuple[tuple[int, int, int] | None, ...]
#: Changed by every commit of any program, and by files that come or go at the top of the folders.
_MARKED: Final = (
    ".git/index",
    ".git/HEAD",
    f".git/{PENDING_NAME}",
    "handbook",
    "rollouts",
    "archive",
    ".sync/last-run.json",
)


@dataclass(frozen=True, slots=True)
class Replay:
    """A client's idempotency key and what it stands for: method, path and body."""

    key: str
    fingerprint: str


class Held(NamedTuple):
    """What a file holds by a write that waits for its commit; None for a file that goes."""

    data: bytes | None
    record: Record | None


@dataclass(slots=True, eq=False)
class _Job:
    work: Work
    caller: Caller
    operation: str
    replay: Replay | None
    coalesced: bool
    done: bool = False
    answer: Answer | None = None
    error: BaseException | None = None


@dataclass(slots=True)
class _Prepared:
    writes: list[FileWrite] = field(default_factory=list)
    drafts: list[tuple[_Job, Draft]] = field(default_factory=list)
    expected: list[tuple[str, str]] = field(default_factory=list)


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
        self._catalogue = Catalogue()
        self._cache = RecordCache(_CACHE_BYTES)
        self._memo = WriteMemo()
        self._max_age = max_age
        self._refreshing = threading.Lock()
        self._refreshed_at: float | None = None
        self._mark: _Mark = ()
        self._generation = 0
        self._turn = threading.Condition()
        self._waiting: list[_Job] = []
        self._busy = False
        self._unrefreshed = 0
        self._pending: dict[str, Held] = {}
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
        self._freshen()
        with self._catalogue.lock:
            yield self._catalogue

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
        job = _Job(work, caller, operation, replay, coalesced)
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
        _check_same(first, replay)
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
                self._generation += 1
                self._refresh(repo)
            return purged
        except (MemoryFailure, TransactionFailed) as error:
            raise _failure(error) from error
        finally:
            with self._turn:
                self._busy = False
                self._turn.notify_all()

    def commit_of(self, file: str) -> None:
        """Have Git know the newest text of a file, so that its history can be read."""
        if file in self._pending:
            self._fold()

    # --- reading ----------------------------------------------------------------------------------------

    def _freshen(self) -> None:
        if self._is_fresh():
            return
        if self._is_recent(2 * self._max_age):
            # So little too old that readers need not wait for the next view.
            if self._refreshing.acquire(blocking=False):
                threading.Thread(target=self._look_aside, daemon=True).start()
            return
        with self._refreshing:
            if not self._is_fresh():
                with Repository.open(self.environment) as repo:
                    self._refresh(repo)

    def _look_aside(self) -> None:
        try:
            with Repository.open(self.environment) as repo:
                self._refresh(repo)
        except MemoryFailure:
            # The next reader that has to wait meets the same, and says so.
            self._refreshed_at = None
        finally:
            self._refreshing.release()

    def _is_fresh(self) -> bool:
        return self._is_recent(self._max_age)

    def _is_recent(self, seconds: float) -> bool:
        """Whether the view is younger than that and nobody has committed since."""
        at = self._refreshed_at
        return at is not None and time.monotonic() - at < seconds and self._mark == self._current_mark()

    def _refresh(self, repo: Repository) -> None:
        generation, mark, at = self._generation, self._current_mark(), time.monotonic()
        # Before the files: what is folded in between is then read twice, and not missed.
        pending = _held(read_pending(repo.git_dir))
        found = read_records(repo, self.clock(), "all", self._cache)
        records = [record for record in found.records if record.path not in pending]
        records += [each.record for each in pending.values() if each.record is not None]
        with self._catalogue.lock:
            # A commit of ours in between is in the catalogue already, and may be missing in what was read.
            if generation == self._generation:
                self._catalogue.replace_all(records)
                self._pending = pending
                self._refreshed_at, self._mark = at, mark
        if pending:
            self._folder.note()

    def _current_mark(self) -> _Mark:
        found: list[tuple[int, int, int] | None] = []
        for name in _MARKED:
            try:
                status = os.lstat(os.path.join(self.environment.memory_root, name))
            except OSError:
                found.append(None)
            else:
                found.append((status.st_ino, status.st_mtime_ns, status.st_size))
        return tuple(found)

    # --- writing ----------------------------------------------------------------------------------------

    def _run(self, jobs: list[_Job]) -> None:
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

    def _log(self, repo: Repository, jobs: list[_Job]) -> None:
        """Acknowledges writes by a line each in the log beside Git."""
        with opened(repo.git_dir) as log:
            prepared = self._prepare_anew(repo, jobs)
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
            with self._catalogue.lock:
                self._pending |= _held(texts)
            self._publish(prepared)
        self._folder.note()

    def _commit(self, repo: Repository, jobs: list[_Job]) -> None:
        """Acknowledges writes by a commit each."""
        with record_writer(repo, self.clock, self._memo) as writer:
            prepared = self._prepare_anew(repo, jobs)
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
            # It is durable where it is; whoever changes this memory next folds it.
            _log.warning("acknowledged writes wait to be committed: %s", error)
            return False
        finally:
            with self._turn:
                self._busy = False
                self._turn.notify_all()

    def _prepare_anew(self, repo: Repository, jobs: list[_Job]) -> _Prepared:
        # Drafts check the bytes they change; only what others committed must be known before.
        if not self._is_recent(_WRITERS_PATIENCE * self._max_age):
            self._refresh(repo)
        try:
            return self._prepare(repo, jobs)
        except Stale:
            self._refresh(repo)
            return self._prepare(repo, jobs)

    def _prepare(self, repo: Repository, jobs: list[_Job]) -> _Prepared:
        prepared = _Prepared()
        now = self.clock()
        batch = Batch(
            self._catalogue,
            repo.root,
            read_allowed_secrets(self.environment),
            now,
            {file: each.data for file, each in self._pending.items()},
            {file: each.record for file, each in self._pending.items()},
        )
        answers: dict[tuple[str, str], FirstAnswer] = {}
        for job in jobs:
            draft = Draft(batch, job.caller, job.operation, None if job.replay is None else job.replay.key)
            job.answer, job.error = None, None
            try:
                job.answer = self._replayed(job, answers, now)
                if job.answer is not None:
                    continue
                job.answer = job.work(draft)
            except Stale:
                raise
            except Exception as error:
                # One request's fault is its own; the others of the batch go on.
                job.error = error
                continue
            if draft.files:
                prepared.writes.append(FileWrite(draft.message(), draft.files))
                prepared.drafts.append((job, draft))
                draft.merge()
            if job.replay is not None:
                key = (job.caller.key, job.replay.key)
                answers[key] = self._expect(key, job.replay, job.answer, draft, now)
                if draft.files:
                    prepared.expected.append(key)
        return prepared

    def _replayed(
        self, job: _Job, answers: dict[tuple[str, str], FirstAnswer], now: datetime
    ) -> Answer | None:
        if job.replay is None:
            return None
        key = (job.caller.key, job.replay.key)
        first = answers.get(key) or self.state.first_answer(*key, now)
        if first is None:
            return None
        if not first.settled and key not in answers and not self._was_committed(first):
            # The process that expected this commit died before it; the request has to be carried out.
            return None
        _check_same(first, job.replay)
        return first.answer

    def _was_committed(self, first: FirstAnswer) -> bool:
        return any(memory.version >= first.version for memory in self._catalogue.of_id(first.memory_id))

    def _expect(
        self, key: tuple[str, str], replay: Replay, answer: Answer, draft: Draft, now: datetime
    ) -> FirstAnswer:
        saved = draft.saved
        memory_id = str(answer.get("id", "")) if saved is None else saved.id
        version = 1 if saved is None else saved.version
        first = FirstAnswer(replay.fingerprint, answer, memory_id, version, not draft.files)
        self.state.expect(*key, first, now)
        return first

    def _publish(self, prepared: _Prepared) -> None:
        with self._catalogue.lock:
            self._generation += 1
            for _, draft in prepared.drafts:
                for file, record in draft.records.items():
                    if isinstance(record, Record):
                        self._catalogue.put(record)
                    else:
                        self._catalogue.remove(file)
            self._mark = self._current_mark()
        if prepared.expected:
            # The commits stand; an answer that is not settled is looked up in them at its next replay.
            with suppress(RepoUnavailable):
                self.state.settle(prepared.expected, kept=True)


def _check_same(first: FirstAnswer, replay: Replay) -> None:
    # guard: one-key-one-request
    if first.fingerprint != replay.fingerprint:
        raise conflict("This idempotency key was used for another request.")


def _held(writes: Iterable[PendingWrite]) -> dict[str, Held]:
    """What each file holds after these writes."""
    held: dict[str, Held] = {}
    for write in writes:
        for file, text in write.files.items():
            data = None if text is None else text.encode()
            record = None if data is None else read_record(file, data)
            held[file] = Held(data, record if isinstance(record, Record) else None)
    return held


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
